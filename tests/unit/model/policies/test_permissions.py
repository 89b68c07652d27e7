"""Permissions as documents: bounds, and what is refused."""

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


@pytest.mark.parametrize("value", [None, "produce", {"produce": 1}, ["produce", 1], ["Produce"], [None]])
def test_actions_are_a_list_of_known_words(value: object) -> None:
    # covers SEC-66
    with pytest.raises(MalformedPolicy):
        actions(value)


def test_all_actions_are_taken() -> None:
    # covers AU-9
    assert actions([*ACTIONS, "produce"]) == set(ACTIONS)
    assert actions([]) == frozenset()


@pytest.mark.parametrize("value", ["", None, 1, "x" * (MAX_ROLE_LENGTH + 1)])
def test_roles_are_texts_of_bounded_length(value: Any) -> None:
    # covers SEC-66
    with pytest.raises(MalformedPolicy):
        role(value)
    with pytest.raises(MalformedPolicy):
        roles([value])


def test_roles_of_a_subscription_stand_there_once() -> None:
    # covers AU-9
    assert roles(["b", "a", "b"]) == ("b", "a")
    with pytest.raises(MalformedPolicy):
        roles("a")


@pytest.mark.parametrize("value", ["prefix", "", None, 1, []])
def test_modes_are_none_and_prefix(value: object) -> None:
    # covers SEC-66
    with pytest.raises(MalformedPolicy):
        auth_mode(value)


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
