"""Permissions as documents: bounds, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from spark_pulsar.model.policies.json_values import MalformedPolicy
from spark_pulsar.model.policies.permissions import (
    ACTIONS,
    MAX_CHARACTERS,
    MAX_GRANTS,
    MAX_ROLE_LENGTH,
    Permissions,
    actions,
    auth_mode,
    role,
    roles,
)


@pytest.mark.parametrize(
    ("read", "values"),
    [
        (actions, [None, "produce", {"produce": 1}, ["produce", 1], ["Produce"], [None]]),
        (role, ["", None, 1, "x" * (MAX_ROLE_LENGTH + 1)]),
        (roles, [[""], [None], [1], ["x" * (MAX_ROLE_LENGTH + 1)], "a"]),
        (auth_mode, ["prefix", "", None, 1, []]),
    ],
    ids=["known actions", "a role of bounded length", "a list of roles", "None or Prefix"],
)
def test_what_is_refused(read: Callable[[Any], object], values: list[Any]) -> None:
    # covers SEC-66
    for value in values:
        with pytest.raises(MalformedPolicy):
            read(value)


def test_all_actions_are_taken_and_roles_of_a_subscription_stand_there_once() -> None:
    # covers AU-9
    assert actions([*ACTIONS, "produce"]) == set(ACTIONS)
    assert actions([]) == frozenset()
    assert roles(["b", "a", "b"]) == ("b", "a")


def test_one_record_holds_them_all() -> None:
    # covers SEC-66
    Permissions({f"r{number}": frozenset() for number in range(MAX_GRANTS)}).check_size()
    too_many = {f"r{number}": frozenset[str]() for number in range(MAX_GRANTS + 1)}
    too_long = {
        f"{number:0{MAX_ROLE_LENGTH}}": frozenset[str]() for number in range(MAX_CHARACTERS // MAX_ROLE_LENGTH + 1)
    }
    for grants in (too_many, too_long):
        with pytest.raises(MalformedPolicy, match="a namespace has at most 10000 roles"):
            Permissions(topics={"t": grants}).check_size()
