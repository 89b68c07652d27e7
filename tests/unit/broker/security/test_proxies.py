"""Roles of proxies and of their clients."""

import pytest

from spark_pulsar.broker.security.authorization import flaw_of_roles
from spark_pulsar.model.principals import Principal

PROXIES = ("proxy", "proxy2")


@pytest.mark.parametrize(
    ("role", "original", "is_right", "is_right_over_http"),
    [
        ("u", None, True, True),
        ("u", "v", False, False),
        ("u", "u", False, True),
        ("u", "proxy", False, False),
        ("proxy", None, False, False),
        ("proxy", "u", True, True),
        ("proxy", "proxy", False, False),
        ("proxy", "proxy2", False, False),
    ],
)
def test_proxies_name_a_client_and_nobody_else_does(
    role: str, original: str | None, is_right: bool, is_right_over_http: bool
) -> None:
    # covers AU-10
    principal = Principal(role, original)
    assert (not flaw_of_roles(principal, PROXIES)) == is_right
    assert (not flaw_of_roles(principal, PROXIES, may_name_itself=True)) == is_right_over_http
