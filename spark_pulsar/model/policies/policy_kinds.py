"""Types and forms of rows that the tables of policies have in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from spark_pulsar.model.limits import INT

from .effective_policies import NO_LIMIT, DispatchRate
from .json_values import at_least_zero, number, truth
from .policy_columns import Kind, Level, Null, Option, Policy, Written, flag


def object_kind(value_class: Any, make: Callable[..., Any] | None = None) -> Kind:
    """Makes the type of an object that is read by its class; `make` is the class unless the default is made
    otherwise."""
    return Kind(
        "object",
        value_class.from_json,
        lambda body, _: value_class.from_json(body).to_json(),
        lambda value: value.to_json(),
        make=make or value_class,
    )


def count_kind(member: str, most: int = INT) -> Kind:
    """Makes the type of a whole number that is not negative; what an older version stored may be."""
    return Kind(
        "number",
        partial(number, what=member, most=most),
        lambda body, level: at_least_zero(body, level.refusal or f"{level.path} must be 0 or more", most),
    )


def switch_kind(member: str) -> Kind:
    """Makes the type of a policy that is on or off."""
    return Kind(
        "true or false", partial(truth, what=member), lambda body, level: truth(body, level.refusal or level.path)
    )


def rate_option(member: str, names: str, what: str) -> Option:
    """Makes the option of a limit that is off by itself."""
    return Option(member, names, help=f"{what}; -1 is no limit.", default=NO_LIMIT)


SWITCH: Final = Option("", "--enable --disable", Written.SWITCH)
"""On or off."""


def dispatch_rate_policy(
    member: str,
    effective: str,
    meaning: str,
    path: str,
    word: str,
    defaults: tuple[str, ...] = (),
    *,
    policy_name: str = "RATE",
    without_effect: str = "",
) -> Policy:
    """Makes the row of a dispatch rate."""
    return Policy(
        member,
        object_kind(DispatchRate),
        meaning,
        Level(path, null=Null.REMOVES),
        Level(path, null=Null.KEEPS),
        policy_name=policy_name,
        field=effective,
        word=word,
        options=(
            rate_option("dispatchThrottlingRateInMsg", "--msg-dispatch-rate -md", "Messages in a period"),
            rate_option("dispatchThrottlingRateInByte", "--byte-dispatch-rate -bd", "Bytes in a period"),
            Option("ratePeriodInSecond", "--dispatch-rate-period -dt", help="The period in seconds.", default=1),
            flag(
                "relativeToPublishRate", "--relative-to-publish-rate -rp", "Relative to the publish rate of the period."
            ),
        ),
        defaults=defaults,
        without_effect=without_effect,
    )
