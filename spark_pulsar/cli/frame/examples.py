"""Examples in the help of commands: those that are written beside a command, or else made of its parameters."""

from __future__ import annotations

import re
import shlex
from itertools import islice
from typing import Any, Final

from typer.core import TyperGroup

NUMBER: Final = 2
"""Examples of a command, and of a group."""
WIDTH: Final = 80
"""Columns that a line of an example takes at most; a longer one goes on in the next line."""
_FORMS: Final = {
    "TOPIC": ("orders", "persistent://acme/shop/orders"),
    "NAMESPACE": ("public/default", "acme/shop"),
    "TENANT": ("acme",),
    "CLUSTER": ("standalone",),
    "RESOURCE_GROUP": ("batch",),
}
"""Arguments by their names: values of the first and of the second example."""
_OPTIONS: Final = {
    "--actions": "produce,consume",
    "--auto-failover-policy-params": "min_limit=3,usage_threshold=100",
    "--broker": "127.0.0.1:8080",
    "--bundle": "0x00000000_0x40000000",
    "--cluster": "standalone",
    "--clusters": "standalone",
    "--compatibility": "BACKWARD",
    "--config": "dispatchThrottlingRatePerTopicInMsg",
    "--datetime": "2026-11-21T15:00:00.000+01:00",
    "--delete-mode": "delete_when_no_subscriptions",
    "--driver": "filesystem",
    "--entry-filters-name": "newest",
    "--expireTime": "2d",
    "--filename": "schema.json",
    "--key": "owner",
    "--lag": "3d",
    "--max-inactive-duration": "1h",
    "--max-message-size": "1048576",
    "--messageTTL": "2h",
    "--namespace": "acme/shop",
    "--namespaces": "acme/.*",
    "--output": "json",
    "--policy": "producer_exception",
    "--primary": "broker-1.*",
    "--primary-group": "ssd",
    "--properties": "owner=ann",
    "--property": "owner=ann",
    "--role": "orders-service",
    "--roles": "orders-service",
    "--size": "10G",
    "--strategy": "BACKWARD",
    "--sub": "billing",
    "--sub-name": "billing",
    "--subscription": "billing",
    "--subscription-auth-mode": "Prefix",
    "--subscription-name": "billing",
    "--tenant": "acme",
    "--threshold": "100M",
    "--time": "3h",
    "--topic": "orders",
    "--topics": "orders,returns",
    "--ttl": "2h",
    "--types": "Exclusive,Shared",
    "--url": "127.0.0.1:8080",
    "--value": "100",
}
_ENABLING: Final = "--enable"
"""Beginning of flags that a command cannot do without: they, or their opposites."""
_NUMBER: Final = re.compile(r"int|float", re.IGNORECASE)
_ACCESS: Final = ("--profile", "prod")


def examples_of(command: Any, ctx: Any) -> list[str]:
    """Returns command lines: of a group, those of its first commands."""
    if command.epilog:
        return [f"spark-pulsar {line}" for line in command.epilog.splitlines()]
    path = ctx.command_path.split()
    if isinstance(command, TyperGroup):
        commands = (command.get_command(ctx, name) for name in command.list_commands(ctx))
        shown = (one for one in commands if one is not None and not one.hidden)
        return [shlex.join([*path, str(one.name), *_words(one, ctx, 0)]) for one in islice(shown, NUMBER)]
    return _of_command(command, ctx, path)


def _of_command(command: Any, ctx: Any, path: list[str]) -> list[str]:
    first, second = [*path, *_words(command, ctx, 0)], [*path, *_words(command, ctx, 1)]
    if first == second and path[1:2] == ["admin"]:  # its options of access are those of the group
        second[2:2] = _ACCESS
    return [shlex.join(words) for words in (first, second)]


def lines_of(example: str, indent: int) -> list[str]:
    """Divides a command line where it is too long, but no option from its value."""
    command, *options = re.split(r" (?=-)", example)
    lines = [""]
    for part in (*command.split(), *options):
        if lines[-1] and len(lines[-1]) + len(part) + 3 + indent > WIDTH:  # a blank, and what continues the line
            lines[-1] += " \\"
            lines.append(f"    {part}")
        else:
            lines[-1] += f" {part}" if lines[-1] else part
    return lines


def _words(command: Any, ctx: Any, number: int) -> list[str]:
    """Returns arguments and required options; in the second example one that may be left out, too."""
    words, optional = [], []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            forms = _FORMS.get(str(parameter.metavar), ())
            words += [forms[min(number, len(forms) - 1)]] if forms else []
        elif parameter.required or parameter.opts[0].startswith(_ENABLING):
            words += _option(parameter, ctx)
        elif "--output" in parameter.opts:
            optional = ["--output", "json"]
        elif not (parameter.hidden or optional):
            optional = _option(parameter, ctx)
    return words + (optional if number else [])


def _option(parameter: Any, ctx: Any) -> list[str]:
    name: str = parameter.opts[0]
    if parameter.is_flag:
        return [name]
    value = _OPTIONS.get(name) or name.lstrip("-")
    is_number = _NUMBER.search(parameter.get_help_record(ctx)[0].removeprefix(name))
    return [name, "10" if is_number and not value.isdecimal() else value]
