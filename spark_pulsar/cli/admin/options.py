"""Options of admin commands: parameters of typer made from the rows of tables, and the values that they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, Final

import typer

from spark_pulsar.cli.values import size_bytes, switched, time_s, whole_mib, whole_minutes
from spark_pulsar.model.policies.policy_columns import Option, Written

Values = dict[str, Any]
"""Arguments and options of one command by the names of its parameters."""
_TYPES: Final = {
    Written.NUMBER: int,
    Written.COUNT: int,
    Written.POSITIVE: int,
    Written.FRACTION: float,
    Written.FLAG: bool,
}
"""Types of options that are no text."""
_LEAST: Final = {Written.COUNT: 0, Written.POSITIVE: 1}
_CONVERTED: Final[dict[Written, Callable[[str], Any]]] = {
    Written.UPPER_CASE: str.upper,
    Written.WORDS: lambda text: text.split(","),
    Written.BYTES: size_bytes,
    Written.MIB: lambda text: whole_mib(size_bytes(text)),
    Written.SECONDS: time_s,
    Written.MILLISECONDS: lambda text: 1000 * time_s(text),
    Written.MINUTES: lambda text: whole_minutes(time_s(text)),
}
CONTEXT: Final = Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)


def parameter(name: str, annotation: Any, default: Any) -> Parameter:
    """Returns one parameter of a command."""
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def parameters_of(options: Sequence[Option], place: str = "body") -> list[Parameter]:
    """Returns the parameters of options: `PLACE_N`, and `PLACE_N_off` for the second of a switch."""
    parameters = []
    for index, option in enumerate(options):
        names = option.names.split()
        if option.written is Written.SWITCH:
            for end, name in zip(("", "_off"), names, strict=True):
                parameters.append(parameter(f"{place}_{index}{end}", bool, typer.Option(False, name, name[1:3])))
        else:
            kind = _TYPES.get(option.written, str)
            annotation = kind if option.default is not None else kind | None
            least = _LEAST.get(option.written)
            default = typer.Option(option.default, *names, help=option.help or None, min=least)
            parameters.append(parameter(f"{place}_{index}", annotation, default))
    return parameters


def members_of(options: Sequence[Option], values: Values, place: str = "body") -> dict[str, Any]:
    """Returns the values of options by their members; an option that is not given is left out."""
    members = {}
    for index, option in enumerate(options):
        value = values[f"{place}_{index}"]
        if option.written is Written.SWITCH:
            value = switched(value, values[f"{place}_{index}_off"])
        elif value is not None and option.written in _CONVERTED:
            value = _CONVERTED[option.written](value)
        if value is not None:
            members[option.member] = value
    return members


def body_of(options: Sequence[Option], values: Values) -> Any:
    """Returns the body of a request: an object, or the value of the option without a member."""
    body = members_of(options, values)
    return body.get("", body)
