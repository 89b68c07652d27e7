"""Commands that set, get and remove policies of namespaces and topics, made from the rows of the table of policies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, Final

import typer

from spark_pulsar.cli.values import segment, show, size_bytes, switched, time_s, whole_mib, whole_minutes
from spark_pulsar.model.policies import DESTINATION_STORAGE, QUOTA_POLICIES, QUOTA_TYPES
from spark_pulsar.model.policy_columns import Level, Option, Policy, Written
from spark_pulsar.model.policy_table import (
    BACKLOG_QUOTAS,
    BY_MEMBER,
    DISPATCH_RATE,
    POLICIES,
    SUBSCRIPTION_DISPATCH_RATE,
)

Values = dict[str, Any]
"""Arguments and options of one command by the names of its parameters."""


@dataclass(frozen=True, slots=True)
class Target:
    """The subject of a group's commands: a namespace or a topic."""

    metavar: str
    path: Callable[[str], str]
    is_topic: bool

    def query(self, values: Values) -> Values:
        """Returns the query of a call; namespaces refuse both words."""
        asked = {word: True for word in ("isGlobal", "applied") if values.get(word)}
        if asked and not self.is_topic:
            raise typer.BadParameter("--global and --applied are for topics")
        return asked


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


_CONTEXT: Final = Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)
_GLOBAL: Final = _parameter(
    "isGlobal", bool, typer.Option(False, "--global", "-g", help="The value for all clusters (topics only).")
)
_APPLIED: Final = _parameter(
    "applied",
    bool,
    typer.Option(False, "--applied", "-ap", help="What holds, also from namespace and broker (topics only)."),
)
_SUBSCRIPTION: Final = _parameter(
    "subscription",
    str | None,
    typer.Option(None, "--subscription", "-s", help="That of one subscription of a topic only."),
)
_QUOTA_TYPE: Final = _parameter(
    "kind", str, typer.Option(DESTINATION_STORAGE, "--type", "-t", help=f"{' or '.join(QUOTA_TYPES)}.")
)
_TYPES: Final = {Written.NUMBER: int, Written.FRACTION: float, Written.FLAG: bool}
"""Types of options that are no text."""
_CONVERTED: Final[dict[Written, Callable[[str], Any]]] = {
    Written.UPPER_CASE: str.upper,
    Written.WORDS: lambda text: text.split(","),
    Written.BYTES: size_bytes,
    Written.MIB: lambda text: whole_mib(size_bytes(text)),
    Written.SECONDS: time_s,
    Written.MILLISECONDS: lambda text: 1000 * time_s(text),
    Written.MINUTES: lambda text: whole_minutes(time_s(text)),
}


def add_policy_commands(app: typer.Typer, target: Target) -> None:
    """Adds the commands of every policy that the group's namespaces or topics have."""
    for policy in POLICIES:
        level = policy.topic if target.is_topic else policy.namespace
        if level is not None and policy.kind.store is not None:
            _add(app, target, policy, level)
    _add_quotas(app, target)


def _add(app: typer.Typer, target: Target, policy: Policy, level: Level) -> None:
    word = level.word or policy.word
    options = [*policy.options]
    if level.names:
        options[0] = options[0]._replace(names=level.names)
    of_one = [_SUBSCRIPTION] if policy.member in (DISPATCH_RATE, SUBSCRIPTION_DISPATCH_RATE) else []
    levels = [] if policy.topic is None and policy.shows else [_GLOBAL, _APPLIED]
    title = level.path if level.names else (policy.namespace or level).path

    def path(values: Values) -> str:
        subscription, base = values.get("subscription"), target.path(values["name"])
        if subscription is None:
            return f"{base}/{level.path}"
        if policy.member != SUBSCRIPTION_DISPATCH_RATE or not target.is_topic:
            raise typer.BadParameter("--subscription is for the dispatch rate of subscriptions of a topic")
        return f"{base}/{segment(subscription)}/dispatchRate"

    def set_(values: Values) -> None:
        call, body, query = (
            getattr(values["ctx"].obj, level.method.lower()),
            _body(options, values),
            target.query(values),
        )
        if level.parameter:
            call(path(values), **{level.parameter: body}, **query)
        else:
            call(path(values), body, **query)

    def get(values: Values) -> None:
        show(values["ctx"].obj.get(path(values), **target.query(values)))

    def remove(values: Values) -> None:
        if level.can_delete:
            values["ctx"].obj.delete(path(values), **target.query(values))
        else:
            values["ctx"].obj.post(path(values), None, **target.query(values))

    about = [_CONTEXT, _parameter("name", str, typer.Argument(metavar=target.metavar))]
    sets = policy.help.format(path=title) or f"Set {policy.meaning}"
    _register(app, f"set-{word}", sets, [*about, *_parameters(options), *of_one, *levels[:1]], set_)
    shows = policy.shows or f"{title}; null when it is not set."
    _register(app, f"get-{word}", f"Show {shows}", [*about, *of_one, *levels], get)
    if not policy.shows:
        removes = f"Remove {title}, so that what is below it holds."
        _register(app, f"remove-{word}", removes, [*about, *of_one, *levels[:1]], remove)


def _add_quotas(app: typer.Typer, target: Target) -> None:
    """Adds the commands of backlog quotas, which name the type that they set or remove."""
    policy = BY_MEMBER[BACKLOG_QUOTAS]

    def path(values: Values) -> str:
        return f"{target.path(values['name'])}/backlogQuota"

    def query(values: Values) -> Values:
        if values["kind"] not in QUOTA_TYPES:
            raise typer.BadParameter(f"Invalid backlog quota type '{values['kind']}'. Valid options are: {QUOTA_TYPES}")
        return {"backlogQuotaType": values["kind"], **target.query(values)}

    def set_(values: Values) -> None:
        body = _body(policy.options, values)
        if body["policy"] not in QUOTA_POLICIES:
            raise typer.BadParameter(
                f"Invalid retention policy type '{body['policy']}'. Valid options are: {QUOTA_POLICIES}"
            )
        values["ctx"].obj.post(path(values), body, **query(values))

    def get(values: Values) -> None:
        show(values["ctx"].obj.get(f"{path(values)}Map", **target.query(values)))

    def remove(values: Values) -> None:
        values["ctx"].obj.delete(path(values), **query(values))

    about = [_CONTEXT, _parameter("name", str, typer.Argument(metavar=target.metavar))]
    word, shows = policy.word, "Show the backlog quotas by their type."
    chosen = [*about, *_parameters(policy.options), _QUOTA_TYPE, _GLOBAL]
    _register(app, f"set-{word}", f"Set {policy.meaning}", chosen, set_)
    for name, is_hidden in (
        (f"get-{word}s", False),
        (f"get-{word}", True),
    ):  # the latter in `pulsar-admin topicPolicies`
        _register(app, name, shows, [*about, _GLOBAL, _APPLIED], get, hidden=is_hidden)
    _register(app, f"remove-{word}", "Remove the backlog quota of a type.", [*about, _QUOTA_TYPE, _GLOBAL], remove)


def _register(
    app: typer.Typer,
    name: str,
    text: str,
    parameters: Sequence[Parameter],
    run: Callable[[Values], None],
    *,
    hidden: bool = False,
) -> None:
    """Adds a command to a group; typer reads its arguments and options from the signature."""

    def command(**values: Any) -> None:
        run(values)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    app.command(name, help=text, hidden=hidden)(command)


def _parameters(options: Sequence[Option]) -> list[Parameter]:
    """Returns the parameters of the options that set a policy: `option_N`, and `other_N` for the second of a switch."""
    found = []
    for index, option in enumerate(options):
        names = option.names.split()
        if option.written is Written.SWITCH:
            for prefix, name in zip(("option", "other"), names, strict=True):
                found.append(_parameter(f"{prefix}_{index}", bool, typer.Option(False, name, name[1:3])))
        else:
            kind = _TYPES.get(option.written, str)
            annotation = kind if option.default is not None else kind | None
            default = typer.Option(option.default, *names, help=option.help or None)
            found.append(_parameter(f"option_{index}", annotation, default))
    return found


def _body(options: Sequence[Option], values: Values) -> Any:
    """Returns the body of the request that sets a policy; an option that is not given is left out."""
    body = {}
    for index, option in enumerate(options):
        value = values[f"option_{index}"]
        if option.written is Written.SWITCH:
            value = switched(value, values[f"other_{index}"])
        elif option.written in _CONVERTED:
            value = _CONVERTED[option.written](value)
        if value is not None:
            body[option.member] = value
    return body.get("", body)
