"""Files made from the configuration keys: `conf/broker.conf`, and the tables of docs/broker-configuration.md."""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import Final

from spark_pulsar.broker.configuration.keys import Key
from spark_pulsar.server.configuration.reading import KEYS

from .markdown import table

_HEAD: Final = """\
Configuration of the broker: every key that it acts upon, with its default. Names and meanings are those of Apache \
Pulsar's broker.conf unless "(ours)" says otherwise. Other keys of Apache Pulsar are accepted and named in a warning."""
_USE: Final = """\
#
#     spark-pulsar broker --conf conf/broker.conf
#
# Options of the command line win over this file. The file is made by `make tables`.
"""


def broker_conf() -> str:
    """Writes `broker.conf`: each key with its default, under its meaning."""
    parts = [_comment(_HEAD) + _USE]
    for title, keys in _sections():
        parts.append(f"### --- {title} ---\n")
        parts += [f"{_comment(key.meaning)}{key.name}={key.default}\n" for key in keys]
    return "\n".join(parts)


def keys_tables() -> str:
    """Writes the keys as Markdown: a table for each section."""
    return "\n\n".join(
        f"## {title}\n\n{table(('Key', 'Default', 'Meaning', 'Dynamic', 'Rules'), map(_row, keys))}"
        for title, keys in _sections()
    )


def _row(key: Key) -> tuple[str, ...]:
    default = f"`{key.default}`" if key.default else "–"
    return f"`{key.name}`", default, key.meaning, "yes" if key.is_dynamic else "", key.rules


def _sections() -> list[tuple[str, list[Key]]]:
    titles = list(dict.fromkeys(key.section for key in KEYS.values()))
    keys = sorted(KEYS.values(), key=lambda key: titles.index(key.section))
    return [(title, list(group)) for title, group in groupby(keys, key=lambda key: key.section)]


def _comment(text: str) -> str:
    lines = textwrap.wrap(text, 120, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"
