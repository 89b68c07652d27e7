"""Rows of the table of admin commands, and the commands of typer that they become (ADM-71).

Most rows say everything: method, path, options. A command that makes several calls, or whose answer needs work, has a
function beside its row.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from inspect import Parameter, Signature
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.models import ArgumentInfo, OptionInfo

from spark_pulsar.cli.access.topics import TOPIC_ARGUMENT, TOPIC_OPTION
from spark_pulsar.cli.admin.options import CONTEXT, Values, body_of, members_of, parameter, parameters_of
from spark_pulsar.cli.output.formats import Format, show
from spark_pulsar.cli.values import namespace_path, segment, topic_name, topic_path
from spark_pulsar.cli.values import show as show_as_pulsar_admin
from spark_pulsar.client.rest import NO_BODY
from spark_pulsar.model.policies.policy_columns import Option

ADMIN: Final = "/admin/v2"
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")


class Place(NamedTuple):
    """A part of REST paths that users name: by an argument, or an option that many commands have."""

    info: Any
    segments: Callable[[str], str] = segment
    """Returns its segments of the path."""


def _local_topic(text: str) -> str:
    """Returns the segments of a topic's path without its domain."""
    name = topic_name(text)
    return f"{name.tenant}/{name.namespace}/{segment(name.local)}"


def _persistent_topic(text: str) -> str:
    """Returns the segments of a topic's path without its domain; refuses a topic that stores nothing."""
    if not topic_name(text).is_persistent:
        raise typer.BadParameter(f"want a persistent topic, got '{text}'")
    return _local_topic(text)


SUBSCRIPTION: Final = typer.Option(..., "--subscription", "-s", help="Name of the subscription.")
PLACES: Final[dict[str, Place]] = {
    "cluster": Place(typer.Argument(..., metavar="CLUSTER")),
    "group": Place(typer.Argument(..., metavar="RESOURCE_GROUP")),
    "tenant": Place(typer.Argument(..., metavar="TENANT")),
    "namespace": Place(
        typer.Argument(..., metavar="NAMESPACE", help="tenant/namespace"),
        lambda text: namespace_path(text).removeprefix(f"{ADMIN}/namespaces/"),
    ),
    "topic": Place(TOPIC_ARGUMENT, lambda text: topic_path(text).removeprefix(f"{ADMIN}/")),
    "local_topic": Place(TOPIC_ARGUMENT, _local_topic),
    "topic_option": Place(TOPIC_OPTION, _persistent_topic),
    "subscription": Place(SUBSCRIPTION),
}
"""Placeholders of paths; `{topic}` has its domain, tenant and namespace. Others are in the row's `placed`."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command: a row of the table."""

    name: str
    """Group and command: `topics unload`."""
    method: str
    path: str
    """REST path; `{topic}` and other placeholders of `PLACES` are arguments."""
    help: str
    _: KW_ONLY
    body: tuple[Option, ...] = ()
    """Options that are members of the request's JSON body; the member "" is the whole body."""
    fixed_body: Any = NO_BODY
    """Body of a request without such options."""
    query: tuple[Option, ...] = ()
    fixed_query: Mapping[str, Any] = field(default_factory=dict)
    placed: tuple[Option, ...] = ()
    """Options that fill the placeholders of their members in the path."""
    question: str = ""
    """Question before it is done, which --force leaves out."""
    shows: bool | None = None
    """Prints the answer; by default that of GET."""
    answer: Callable[[Any], Any] = lambda value: value
    """Makes the printed form of the answer."""
    columns: tuple[str, ...] = ()
    """Members of a list's objects that a table shows; with them the answer is a table on a terminal."""
    is_hidden: bool = False
    work: Callable[..., Any] | None = None
    """Function that does it, in place of the one call; its parameters after `ctx` are those of the command, and what
    it returns is shown."""
    own_parameters: tuple[Parameter, ...] = ()
    own_run: Callable[[Values], Any] | None = None
    """Function of a row that is made by a program; its parameters are `own_parameters`."""
    also: tuple[tuple[str, str], ...] = ()
    """Method and path of other calls that the function makes."""
    is_of_policies: bool = False
    """Made from the table of policies, which has its own place in the docs."""

    @property
    def group(self) -> str:
        """First word of the name."""
        return self.name.partition(" ")[0]

    @property
    def is_shown(self) -> bool:
        """Returns whether the command prints an answer."""
        return self.method == "GET" if self.shows is None else self.shows

    def parameters(self) -> list[Parameter]:
        """Returns arguments and options, without those of output."""
        if self.own_run is not None:
            return [*self.own_parameters]
        if self.work is not None:
            own = inspect.signature(self.work, eval_str=True).parameters.values()
            return [argument.replace(kind=Parameter.KEYWORD_ONLY) for argument in own if argument.name != "ctx"]
        parameters = [parameter(name, str, PLACES[name].info) for name in self._places()]
        parameters += (
            parameters_of(self.placed, "placed") + parameters_of(self.body) + parameters_of(self.query, "query")
        )
        return [*parameters, _FORCE] if self.question else parameters

    def option_names(self) -> list[tuple[str, ...]]:
        """Returns the names of each option, without those of output."""
        return [
            (*_first_name(argument), *(info.param_decls or ()))
            for argument in self.parameters()
            if isinstance(info := _info(argument), OptionInfo)
        ]

    def argument_names(self) -> list[str]:
        """Returns the names of the arguments."""
        infos = map(_info, self.parameters())
        return [str(info.metavar) for info in infos if isinstance(info, ArgumentInfo)]

    def run(self, values: Values) -> Any:
        """Carries out the command, and returns the answer."""
        if self.own_run is not None:
            return self.own_run(values)
        if self.work is not None:
            return self.work(**values)
        if self.question and not values.pop("force") and not typer.confirm(self.question):
            raise typer.Exit
        names = self._places()
        placed = {name: PLACES[name].segments(values[name]) for name in names}
        placed |= {name: segment(str(value)) for name, value in members_of(self.placed, values, "placed").items()}
        query = {**self.fixed_query, **members_of(self.query, values, "query")}
        call = getattr(values["ctx"].obj, self.method.lower())
        path = self.path.format(**placed)
        if self.method in ("GET", "DELETE"):
            return self.answer(call(path, **query))
        return self.answer(call(path, body_of(self.body, values) if self.body else self.fixed_body, **query))

    def _places(self) -> list[str]:
        """Returns the placeholders that are arguments, or options of many commands."""
        own = {option.member for option in self.placed}
        return [name for name in dict.fromkeys(_PLACEHOLDER.findall(self.path)) if name not in own]


def rows(group: str, base: str) -> Callable[..., Command]:
    """Makes the rows of a group whose paths begin alike: name, method and rest of the path (`GET /stats`), help, and
    the rest by its names."""

    def row(name: str, call: str, text: str, **more: Any) -> Command:
        method, _, rest = call.partition(" ")
        return Command(f"{group} {name}", method, base + rest, text, **more)

    return row


def _info(argument: Parameter) -> Any:
    """Returns typer's description of a parameter."""
    return next(iter(getattr(argument.annotation, "__metadata__", ())), argument.default)


def _first_name(argument: Parameter) -> tuple[str, ...]:
    """Returns the first name of an option that is an annotation: typer keeps it as the default."""
    return (_info(argument).default,) if hasattr(argument.annotation, "__metadata__") else ()


_FORCE: Final = parameter("force", bool, typer.Option(False, "--force", "-force", "-f", help="Skip the confirmation."))
AsPulsarAdmin = Annotated[
    Format | None,
    typer.Option(
        "--output",
        "-o",
        help="table, text, json or yaml.",
        show_default="as pulsar-admin prints it",
        case_sensitive=False,
    ),
]
_OUTPUT: Final = parameter("output", AsPulsarAdmin, None)


def add_commands(groups: Mapping[str, typer.Typer], commands: Iterable[Command]) -> None:
    """Adds commands to their groups; typer reads arguments and options from the signature."""
    for command in commands:
        _add(groups[command.group], command)


def _add(group: typer.Typer, row: Command) -> None:
    def command(**values: Any) -> None:
        output = values.pop("output") if row.is_shown else None
        answer = row.run(values)
        if row.is_shown and (output is not None or (row.columns and sys.stdout.isatty())):
            show(answer, output, columns=row.columns)
        elif row.is_shown:
            show_as_pulsar_admin(answer)

    parameters = [CONTEXT, *row.parameters(), *([_OUTPUT] if row.is_shown else [])]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    group.command(row.name.partition(" ")[2], help=row.help, hidden=row.is_hidden)(command)
