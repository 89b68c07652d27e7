"""Files made from the configuration keys: `conf/broker.conf`, and the Markdown table of docs/broker-configuration.md.

`python -m spark_pulsar.server.config.tables` writes both in the working directory.
"""

from __future__ import annotations

import textwrap
from itertools import groupby
from pathlib import Path
from typing import Final

from spark_pulsar.broker.turn.config_keys import Key

from .reading import KEYS

BEGIN: Final = "<!-- keys -->"
END: Final = "<!-- /keys -->"
"""Marks around the table in docs/broker-configuration.md."""

_HEAD: Final = """\
Configuration of the broker: every key that it acts upon, with its default. Names and meanings are those of Apache \
Pulsar's broker.conf unless "(ours)" says otherwise. Other keys of Apache Pulsar are accepted and named in a warning."""
_USE: Final = """\
#
#     spark-pulsar broker --conf conf/broker.conf
#
# Options of the command line win over this file. The file is made by `python -m spark_pulsar.server.config.tables`.
"""


def broker_conf() -> str:
    """Writes `broker.conf`: each key with its default, under its meaning."""
    parts = [_comment(_HEAD) + _USE]
    for title, keys in _sections():
        parts.append(f"### --- {title} ---\n")
        parts += [f"{_comment(key.meaning)}{key.name}={key.default}\n" for key in keys]
    return "\n".join(parts)


def keys_table() -> str:
    """Writes the keys as Markdown: a table for each section."""
    parts = []
    for title, keys in _sections():
        rows = [
            (
                f"`{key.name}`",
                f"`{key.default}`" if key.default else "–",
                key.meaning,
                "yes" if key.is_dynamic else "",
                key.rules,
            )
            for key in keys
        ]
        lines = [("Key", "Default", "Meaning", "Dynamic", "Rules"), ("---",) * 5, *rows]
        parts.append(f"## {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines))
    return "\n".join(parts)


def with_table(document: str) -> str:
    """Replaces the table between the marks of a document."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{keys_table()}\n{END}{after}"


def _sections() -> list[tuple[str, list[Key]]]:
    titles = list(dict.fromkeys(key.section for key in KEYS.values()))
    keys = sorted(KEYS.values(), key=lambda key: titles.index(key.section))
    return [(title, list(group)) for title, group in groupby(keys, key=lambda key: key.section)]


def _comment(text: str) -> str:
    lines = textwrap.wrap(text, 120, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path("conf/broker.conf").write_text(broker_conf())
    page = Path("docs/broker-configuration.md")
    page.write_text(with_table(page.read_text()))
