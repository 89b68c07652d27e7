"""The tables of docs/admin.md (commands, policies, paths that are not built) and of docs/broker-metrics.md.

A policy is a row with its member in Apache Pulsar's documents of policies, its type, meaning, command, REST paths (the
last segment, with the method that sets it) and the keys of `broker.conf` that hold its default.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final

from spark_pulsar.admin.metrics.coordinator_metrics import COORDINATOR
from spark_pulsar.admin.metrics.metric_table import BROKER, NAMESPACE, SUBSCRIPTION, TOPIC
from spark_pulsar.admin.not_built import NO_REASON, NOT_BUILT
from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.cli.admin.command import Command
from spark_pulsar.cli.admin.table import COMMANDS
from spark_pulsar.model.policies.policy_columns import Level, Option, Policy, Written
from spark_pulsar.model.policies.policy_table import POLICIES

from .markdown import table
from .metrics_left_out import LEFT_OUT, LeftOut

_POLICIES_HEAD: Final = ("Policy", "Type", "Meaning", "Command", "Namespaces", "Topics", "Default")
_NOT_BUILT_HEAD: Final = ("Paths", "Reason")
_METRICS_HEAD: Final = ("Metric", "Labels beside `cluster`", "Meaning")
_COMMANDS_HEAD: Final = ("Command", "Does", "Call")
_KEYS: Final = {each.name: each.metadata["key"].name for each in fields(BrokerConfig) if each.metadata}


def admin_tables() -> dict[str, str]:
    """Returns the tables of docs/admin.md by their marks."""
    return {
        "commands": table(_COMMANDS_HEAD, map(_command_row, _listed())),
        "policies": table(_POLICIES_HEAD, map(_policy_row, POLICIES)),
        "not built": table(_NOT_BUILT_HEAD, _not_built_rows()),
    }


def _not_built_rows() -> Iterable[tuple[str, ...]]:
    """Yields the paths that answer 501, those of one reason in a row."""
    paths: dict[str, list[str]] = {}
    for each in NOT_BUILT:
        if each.reason != NO_REASON:
            paths.setdefault(each.reason, []).append(f"`{each.path}`")
    return ((", ".join(found), reason) for reason, found in paths.items())


# ---- commands ---------------------------------------------------------------------------------------------------


def _listed() -> list[Command]:
    """Returns the commands that are not of policies, by group."""
    groups = list(dict.fromkeys(command.group for command in COMMANDS))
    listed = [command for command in COMMANDS if not (command.is_of_policies or command.is_hidden)]
    return sorted(listed, key=lambda command: groups.index(command.group))


def _command_row(command: Command) -> tuple[str, ...]:
    words = " ".join((command.name, *command.argument_names()))
    options = " ".join(f"`{names[0]}`" for names in command.option_names() if "-o" not in names)
    calls = dict.fromkeys(
        f"`{method} {re.sub('{(local_topic|topic_option)}', '{topic}', path.removeprefix('/admin/v2'))}`"
        for method, path in ((command.method, command.path), *command.also)
    )
    return f"`{words}` {options}".strip(), command.help, ", ".join(calls)


# ---- policies ---------------------------------------------------------------------------------------------------


def _policy_row(policy: Policy) -> tuple[str, ...]:
    meaning = policy.meaning[0].upper() + policy.meaning[1:]
    if policy.without_effect:
        meaning += f" **Without effect**: {policy.without_effect}."
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


# ---- metrics ----------------------------------------------------------------------------------------------------


def metrics_tables() -> dict[str, str]:
    """Returns the tables of docs/broker-metrics.md by their marks."""
    return {
        "metrics": table(_METRICS_HEAD, _metric_rows()),
        "metrics left out": table(("Metrics", "Reason"), map(_left_out_row, LEFT_OUT)),
    }


def _metric_rows() -> Iterable[tuple[str, ...]]:
    """Yields a row for each metric of the tables, once for all values of its own labels."""
    levels: tuple[tuple[Iterable[Any], str], ...] = (
        (BROKER, ""),
        (COORDINATOR, "coordinator_id"),
        (NAMESPACE, "namespace"),
        (TOPIC, "namespace, topic"),
        (SUBSCRIPTION, "namespace, topic, subscription"),
    )
    seen = set()
    for metrics, labels in levels:
        for metric in metrics:
            own = re.findall(r'(\w+)="', getattr(metric, "labels", ""))
            if metric.name not in seen:
                seen.add(metric.name)
                yield f"`{metric.name}`", ", ".join([each for each in (labels, *own) if each]), metric.help


def _left_out_row(left_out: LeftOut) -> tuple[str, ...]:
    return ", ".join(f"`{each}`" for each in left_out.names.split()), left_out.reason
