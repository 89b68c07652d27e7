"""Roles with a star: grants of `PREFIX*` and `*SUFFIX` against a regular expression."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.model.policies.permissions import Permissions, is_permitted, matches_wildcard

ROLES = st.text("ab*-.", max_size=6)


def _expected(granted: str, role: str) -> bool:
    """One star at an end stands for anything; any other is a character."""
    patterns = [re.escape(granted[:-1]) + ".*"] if granted.endswith("*") else []
    patterns += [".*" + re.escape(granted[1:])] if granted.startswith("*") else []
    return any(re.fullmatch(pattern, role, re.DOTALL) for pattern in patterns)


@given(ROLES, ROLES)
def test_a_star_at_an_end_stands_for_anything(granted: str, role: str) -> None:
    # covers AU-9
    assert matches_wildcard(granted, role) == _expected(granted, role)


@given(st.dictionaries(ROLES.filter(bool), st.sets(st.sampled_from(["produce", "consume"]))), ROLES, st.booleans())
def test_a_role_has_what_it_was_granted_by_name_or_by_star(
    granted: dict[str, set[str]], role: str, with_wildcards: bool
) -> None:
    # covers AU-9
    grants = {each: frozenset(actions) for each, actions in granted.items()}
    expected = "produce" in grants.get(role, ()) or (
        with_wildcards and any("produce" in actions and _expected(each, role) for each, actions in grants.items())
    )
    assert is_permitted(grants, role, "produce", with_wildcards=with_wildcards) == expected


@given(
    st.dictionaries(ROLES.filter(bool), st.frozensets(st.sampled_from(["produce", "consume", "sinks"]))),
    st.dictionaries(st.text(max_size=3), st.lists(ROLES.filter(bool), unique=True).map(tuple)),
)
def test_permissions_are_read_as_they_are_written(
    namespace: dict[str, frozenset[str]], subscriptions: dict[str, tuple[str, ...]]
) -> None:
    # covers AU-9
    written = Permissions(namespace, {"persistent://a/b/c": namespace}, subscriptions)
    assert Permissions.from_json(written.to_json()) == written
