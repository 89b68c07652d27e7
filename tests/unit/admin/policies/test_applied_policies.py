"""Policies in effect over REST, and the level that each comes from."""

from __future__ import annotations

from typing import Any

from spark_pulsar.model.policies.policy_table import POLICIES
from tests.unit.admin.test_app import call
from tests.unit.broker.world import World

NAMESPACE = "/admin/v2/namespaces/public/default"
TOPIC = "/admin/v2/persistent/public/default/t"


def applied(world: World, path: str) -> dict[str, Any]:
    status, _, found = call(world, "GET", f"{path}/appliedPolicies")
    assert status == 200
    return dict(found)


def levels(world: World, path: str) -> set[str]:
    return {each["level"] for each in applied(world, path).values()}


def test_the_last_level_wins_and_all_are_told() -> None:
    world = World()
    call(world, "PUT", TOPIC)
    assert levels(world, NAMESPACE) == levels(world, TOPIC) == {"broker"}
    ttl = "message_ttl_in_seconds"
    values: dict[str, int] = {"broker": 0}
    for path, level, value in (
        (f"{NAMESPACE}/messageTTL", "namespace", b"30"),
        (f"{TOPIC}/messageTTL?isGlobal=true&messageTTL=20", "topicOfAllClusters", b""),
        (f"{TOPIC}/messageTTL?messageTTL=10", "topic", b""),
    ):
        assert call(world, "POST", path, value)[0] == 204
        values[level] = int(value or path[-2:])
        found = applied(world, TOPIC)[ttl]
        assert found == {"value": values[level], "level": level, "values": values}
    assert applied(world, NAMESPACE)[ttl] == {
        "value": 30,
        "level": "namespace",
        "values": {"broker": 0, "namespace": 30},
    }


def test_every_policy_is_told_where_it_can_be_set() -> None:
    world = World()
    call(world, "PUT", TOPIC)
    assert set(applied(world, TOPIC)) == {policy.member for policy in POLICIES}
    assert set(applied(world, NAMESPACE)) == {policy.member for policy in POLICIES if policy.namespace is not None}


def test_what_the_configuration_demands_comes_from_the_broker() -> None:
    world = World(enforce_schemas=True)
    call(world, "POST", f"{NAMESPACE}/schemaValidationEnforced", b"false")
    found = applied(world, NAMESPACE)["schema_validation_enforced"]
    assert found == {"value": True, "level": "broker", "values": {"broker": True, "namespace": False}}


def test_what_does_not_exist_is_refused() -> None:
    world = World()
    assert call(world, "GET", f"{TOPIC}/appliedPolicies")[0] == 404
    assert call(world, "GET", "/admin/v2/namespaces/public/none/appliedPolicies")[0] == 404
