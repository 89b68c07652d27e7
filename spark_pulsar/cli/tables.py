"""The table of policies as Markdown: `python -m spark_pulsar.cli.tables` writes it into docs/admin.md.

A policy is a row with its member in Apache Pulsar's documents of policies, its type, meaning, command, REST paths (the
last segment, with the method that sets it) and the keys of `broker.conf` that hold its default.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Final

from spark_pulsar.broker.turn.config import BrokerConfig
from spark_pulsar.model.policy_columns import Level, Option, Policy, Written
from spark_pulsar.model.policy_table import POLICIES

BEGIN: Final = "<!-- policies -->"
END: Final = "<!-- /policies -->"
"""Marks around the table in docs/admin.md."""

_HEAD: Final = ("Policy", "Type", "Meaning", "Command", "Namespaces", "Topics", "Default")
_KEYS: Final = {each.name: each.metadata["key"].name for each in fields(BrokerConfig) if each.metadata}


def policies_table() -> str:
    """Writes the policies as a Markdown table."""
    rows = [_HEAD, ("---",) * len(_HEAD), *(_row(policy) for policy in POLICIES)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def with_table(document: str) -> str:
    """Replaces the table between the marks of a document."""
    before, _, rest = document.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{policies_table()}\n{END}{rest.partition(END)[2]}"


def _row(policy: Policy) -> tuple[str, ...]:
    meaning = policy.meaning[0].upper() + policy.meaning[1:]
    commands = dict.fromkeys(_command(policy, level) for level in (policy.namespace, policy.topic) if level is not None)
    defaults = ", ".join(f"`{_KEYS[name]}`" for name in policy.defaults)
    return (
        f"`{policy.member}`",
        policy.kind.name,
        meaning,
        "; topics: ".join(commands) if policy.word else "–",
        _path(policy.namespace),
        _path(policy.topic),
        defaults or "–",
    )


def _command(policy: Policy, level: Level) -> str:
    options = list(policy.options)
    if level.names:
        options[0] = options[0]._replace(names=level.names)
    return f"`set-{level.word or policy.word}` " + " ".join(_option(option) for option in options)


def _option(option: Option) -> str:
    names = option.names.split()
    shown = " or ".join(f"`{name}`" for name in (names if option.written is Written.SWITCH else names[:1]))
    return shown if option.default is ... else f"[{shown}]"


def _path(level: Level | None) -> str:
    if level is None:
        return "–"
    return f"`{level.method} {level.path}{f'?{level.parameter}=' if level.parameter else ''}`"


if __name__ == "__main__":
    page = Path("docs/admin.md")
    page.write_text(with_table(page.read_text()))
