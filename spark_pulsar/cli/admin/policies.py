"""Commands that set, get and remove policies of namespaces and topics, made from the rows of the table of policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import typer

from spark_pulsar.cli.admin.command import PLACES, Command
from spark_pulsar.cli.admin.options import Values, body_of, parameter, parameters_of
from spark_pulsar.cli.values import namespace_path, segment, topic_path
from spark_pulsar.model.policies.effective_policies import DESTINATION_STORAGE, QUOTA_POLICIES, QUOTA_TYPES
from spark_pulsar.model.policies.policy_columns import Level, Null, Option, Policy
from spark_pulsar.model.policies.policy_table import (
    BACKLOG_QUOTAS,
    BY_MEMBER,
    DISPATCH_RATE,
    POLICIES,
    SUBSCRIPTION_DISPATCH_RATE,
)


@dataclass(frozen=True, slots=True)
class Target:
    """The subject of a group's commands: a namespace or a topic."""

    group: str
    place: str
    """Name of its placeholder."""
    rest: str
    """REST path with the placeholder."""
    path: Callable[[str], str]

    @property
    def is_topic(self) -> bool:
        """Returns whether it is a topic."""
        return self.place == "topic"

    def query(self, values: Values) -> Values:
        """Returns the query of a call; namespaces refuse both words."""
        flags = {word: True for word in ("isGlobal", "applied") if values.get(word)}
        if flags and not self.is_topic:
            raise typer.BadParameter("--global and --applied are for topics")
        return flags


_NAMESPACES: Final = Target("namespaces", "namespace", "/admin/v2/namespaces/{namespace}", namespace_path)
_TOPICS: Final = Target("topics", "topic", "/admin/v2/{topic}", topic_path)
_TOPIC_POLICIES: Final = Target("topicPolicies", "topic", "/admin/v2/{topic}", topic_path)
_GLOBAL: Final = parameter(
    "isGlobal", bool, typer.Option(False, "--global", "-g", help="The value for all clusters (topics only).")
)
_APPLIED: Final = parameter(
    "applied",
    bool,
    typer.Option(False, "--applied", "-ap", help="What holds, also from namespace and broker (topics only)."),
)
_SUBSCRIPTION: Final = parameter(
    "subscription",
    str | None,
    typer.Option(None, "--subscription", "-s", help="That of one subscription of a topic only."),
)
_QUOTA_TYPE: Final = parameter(
    "kind", str, typer.Option(DESTINATION_STORAGE, "--type", "-t", help=f"{' or '.join(QUOTA_TYPES)}.")
)


def _commands_of(target: Target) -> Iterator[Command]:
    """Yields the commands of every policy that the target has."""
    for policy in POLICIES:
        level = policy.topic if target.is_topic else policy.namespace
        if level is not None and policy.kind.store is not None:
            yield from _commands(target, policy, level)
    yield from _quotas(target)


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls about one policy of one target."""

    target: Target
    policy: Policy
    level: Level
    options: Sequence[Option]

    def set(self, values: Values) -> None:
        """Sets the policy."""
        level, query = self.level, self.target.query(values)
        call, body = getattr(values["ctx"].obj, level.method.lower()), body_of(self.options, values)
        if level.parameter:
            call(self._path(values), **{level.parameter: body}, **query)
        else:
            call(self._path(values), body, **query)

    def get(self, values: Values) -> Any:
        """Returns the policy."""
        return values["ctx"].obj.get(self._path(values), **self.target.query(values))

    def remove(self, values: Values) -> None:
        """Removes the policy."""
        level, admin = self.level, values["ctx"].obj
        if level.removal:
            admin.delete(f"{self.target.path(values['name'])}/{level.removal}")
        elif level.can_delete:
            admin.delete(self._path(values), **self.target.query(values))
        else:
            admin.post(self._path(values), None, **self.target.query(values))

    def _path(self, values: Values) -> str:
        subscription, base = values.get("subscription"), self.target.path(values["name"])
        if subscription is None:
            return f"{base}/{self.level.path}"
        if self.policy.member != SUBSCRIPTION_DISPATCH_RATE or not self.target.is_topic:
            raise typer.BadParameter("--subscription is for the dispatch rate of subscriptions of a topic")
        return f"{base}/{segment(subscription)}/dispatchRate"


def _commands(target: Target, policy: Policy, level: Level) -> Iterator[Command]:
    word = level.word or policy.word
    options = [*policy.options]
    if level.names:
        options[0] = options[0]._replace(names=level.names)
    of_one = [_SUBSCRIPTION] if policy.member in (DISPATCH_RATE, SUBSCRIPTION_DISPATCH_RATE) else []
    levels = [] if policy.topic is None and policy.shows else [_GLOBAL, _APPLIED]
    title = level.path if level.names else (policy.namespace or level).path

    calls = _Calls(target, policy, level, options)
    row = partial(Command, is_of_policies=True)
    rest = f"{target.rest}/{level.path}"
    one_rate = f"{target.rest}/{{subscription}}/dispatchRate"
    has_ones = policy.member == SUBSCRIPTION_DISPATCH_RATE and target.is_topic

    def more(method: str) -> tuple[tuple[str, str], ...]:
        return ((method, one_rate),) if has_ones else ()

    about = [parameter("name", str, PLACES[target.place].info)]
    yield row(
        name=f"{target.group} set-{word}",
        method=level.method,
        path=rest,
        help=policy.help.format(path=title) or f"Set {policy.meaning}",
        own_parameters=(*about, *parameters_of(options), *of_one, *levels[:1]),
        own_run=calls.set,
        also=more("POST"),
    )
    yield row(
        name=f"{target.group} get-{word}",
        method="GET",
        path=rest,
        help=f"Show {policy.shows or f'{title}; null when it is not set.'}",
        own_parameters=(*about, *of_one, *levels),
        own_run=calls.get,
        also=more("GET"),
    )
    if not policy.shows and (level.can_delete or level.null is Null.REMOVES):
        yield row(
            name=f"{target.group} remove-{word}",
            method="DELETE" if level.can_delete else "POST",
            path=f"{target.rest}/{level.removal}" if level.removal else rest,
            help=f"Remove {title}, so that the level below it applies.",
            own_parameters=(*about, *of_one, *levels[:1]),
            own_run=calls.remove,
            also=more("DELETE"),
        )


def _quotas(target: Target) -> Iterator[Command]:
    """Yields the commands of backlog quotas, which name the type that they set or remove."""
    policy = BY_MEMBER[BACKLOG_QUOTAS]

    def path(values: Values) -> str:
        return f"{target.path(values['name'])}/backlogQuota"

    def query(values: Values) -> Values:
        if values["kind"] not in QUOTA_TYPES:
            raise typer.BadParameter(f"Invalid backlog quota type '{values['kind']}'. Valid options are: {QUOTA_TYPES}")
        return {"backlogQuotaType": values["kind"], **target.query(values)}

    def set_(values: Values) -> None:
        body = body_of(policy.options, values)
        if body["policy"] not in QUOTA_POLICIES:
            raise typer.BadParameter(
                f"Invalid retention policy type '{body['policy']}'. Valid options are: {QUOTA_POLICIES}"
            )
        values["ctx"].obj.post(path(values), body, **query(values))

    def get(values: Values) -> Any:
        return values["ctx"].obj.get(f"{path(values)}Map", **target.query(values))

    def remove(values: Values) -> None:
        values["ctx"].obj.delete(path(values), **query(values))

    row = partial(Command, is_of_policies=True)
    about = [parameter("name", str, PLACES[target.place].info)]
    word, one = policy.word, f"{target.rest}/backlogQuota"
    yield row(
        name=f"{target.group} set-{word}",
        method="POST",
        path=one,
        help=f"Set {policy.meaning}",
        own_parameters=(*about, *parameters_of(policy.options), _QUOTA_TYPE, _GLOBAL),
        own_run=set_,
    )
    for name, is_hidden in ((f"get-{word}s", False), (f"get-{word}", True)):  # the latter in `topicPolicies`
        yield row(
            name=f"{target.group} {name}",
            method="GET",
            path=f"{one}Map",
            help="Show the backlog quotas by their type.",
            own_parameters=(*about, _GLOBAL, _APPLIED),
            own_run=get,
            is_hidden=is_hidden,
        )
    yield row(
        name=f"{target.group} remove-{word}",
        method="DELETE",
        path=one,
        help="Remove the backlog quota of a type.",
        own_parameters=(*about, _QUOTA_TYPE, _GLOBAL),
        own_run=remove,
    )


COMMANDS: Final = (*_commands_of(_NAMESPACES), *_commands_of(_TOPICS), *_commands_of(_TOPIC_POLICIES))
