"""Effective policies beside a model that looks at every level each time."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.broker.topics import auto_creation, lifecycle, policy_changes
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import BacklogQuota, RetentionPolicy
from tests.unit.broker.world import World

NAMESPACES = ("public/default", "public/other")
TOPICS = [TopicName.parse(f"persistent://{namespace}/{local}") for namespace in NAMESPACES for local in ("a", "b")]
LIMITS = st.integers(-1, 50)
QUOTAS = st.builds(BacklogQuota, LIMITS, LIMITS, st.sampled_from(["producer_exception", "producer_request_hold"]))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    policy_table.MESSAGE_TTL: st.integers(0, 9),
    policy_table.RETENTION: st.builds(RetentionPolicy, LIMITS.filter(bool), LIMITS.filter(bool)).map(
        RetentionPolicy.to_json
    ),
    policy_table.BACKLOG_QUOTAS: st.dictionaries(
        st.sampled_from(["destination_storage", "message_age"]), QUOTAS.map(BacklogQuota.to_json), min_size=1
    ),
    policy_table.DEDUPLICATION: st.booleans(),
}
CHANGES = st.sampled_from(sorted(VALUES)).flatmap(
    lambda member: st.tuples(
        st.sampled_from([*NAMESPACES, *TOPICS, *((topic, "everywhere") for topic in TOPICS), "restart", "delete"]),
        st.just(member),
        st.none() | VALUES[member],
    )
)


@settings(max_examples=60, deadline=None)
@given(changes=st.lists(CHANGES, max_size=25))
def test_what_holds_is_what_the_levels_say(changes: list[tuple[Any, str, Any]]) -> None:
    # covers RET-1, TTL-1, BQ-1, DED-1 (levels)
    config: dict[str, Any] = {"namespaces": NAMESPACES, "default_message_ttl_s": 3, "deduplication": True}
    world = World(**config)
    world.happen([])
    levels: dict[Any, dict[str, Any]] = {}
    for where, member, value in changes:
        if where == "restart":
            world = world.restart(**config)
        elif where == "delete":
            name = TOPICS[0]
            world.ask(lambda core: lifecycle.delete(core, auto_creation.obtain(core, TOPICS[0], may_create=True)))
            levels.pop(name, None)
            levels.pop((name, "everywhere"), None)
        else:
            _set(world, where, member, value)
            levels.setdefault(where, {})[member] = value
        for name in TOPICS:
            _compare(world, levels, name)


def _set(world: World, where: Any, member: str, value: Any) -> None:
    value = json.loads(json.dumps(value))
    if isinstance(where, str):
        world.ask(lambda core: policy_changes.set_of_namespace(core, where, member, value))
    else:
        name, everywhere = where if isinstance(where, tuple) else (where, "")
        world.ask(
            lambda core: policy_changes.set_of_topic(core, name, member, value, for_all_clusters=bool(everywhere))
        )


def _compare(world: World, levels: dict[Any, dict[str, Any]], name: TopicName) -> None:
    order = [levels.get(level, {}) for level in (name, (name, "everywhere"), name.namespace_name)]

    def first(member: str) -> Any:
        return next((level[member] for level in order if level.get(member) is not None), None)

    def quota(kind: str) -> BacklogQuota:
        maps = [
            level[policy_table.BACKLOG_QUOTAS] for level in order if level.get(policy_table.BACKLOG_QUOTAS) is not None
        ]
        return next((BacklogQuota.from_json(each[kind], "") for each in maps if kind in each), BacklogQuota())

    found = world.core.policies_of(name.at_partition(1))
    ttl, retention, deduplication = (
        first(member) for member in (policy_table.MESSAGE_TTL, policy_table.RETENTION, policy_table.DEDUPLICATION)
    )
    assert found.message_ttl_s == (3 if ttl is None else ttl)
    assert found.retention == (RetentionPolicy() if retention is None else RetentionPolicy.from_json(retention))
    assert found.deduplication is (True if deduplication is None else deduplication)
    assert (found.size_quota, found.age_quota) == (quota("destination_storage"), quota("message_age"))
    assert found == world.core.policies_of(name)
