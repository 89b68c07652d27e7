"""A damaged topic trims and expires nothing until its loss is accepted: its policies may be lost too."""

import pytest

from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.turn.events import EntriesLost
from spark_pulsar.ledger.state.damage import DamageAccepted
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import (
    BACKLOG_EVICTION,
    DESTINATION_STORAGE,
    MESSAGE_AGE,
    BacklogQuota,
)
from tests.unit.broker.world import QUIET, TOPIC, World, entry

HOUR_MS = 3_600_000
ENTRIES = 25
QUOTAS = {
    DESTINATION_STORAGE: BacklogQuota(limit_bytes=10, policy=BACKLOG_EVICTION).to_json(),
    MESSAGE_AGE: BacklogQuota(limit_time_s=1, policy=BACKLOG_EVICTION).to_json(),
}
LETTING_GO = {
    policy_table.MESSAGE_TTL: 1,
    policy_table.BACKLOG_QUOTAS: QUOTAS,
    policy_table.SUBSCRIPTION_EXPIRATION: 1,
}


@pytest.fixture
def world() -> World:
    """A topic of three ledgers with a subscription without consumers; the second entry cannot be read."""
    world = World(**QUIET, ledger_max_entries=10, ledger_min_age_ms=-1)
    client = world.connect_consumer(permits=0)
    client.open_producer(name=None)
    for number in range(ENTRIES):
        client.publish(1, entry("m", publish_time=world.now_ms), first=number)
    client.close()
    world.happen([EntriesLost([(1, 1, 2)], "ledgers/1.ledger:0", "a checksum")])
    return world


@pytest.mark.parametrize("member", LETTING_GO)
@pytest.mark.parametrize("restarts", [False, True])
def test_no_policy_lets_go_of_anything_until_the_damage_is_accepted(
    world: World, member: str, *, restarts: bool
) -> None:
    # covers TTL-1, BQ-6, BQ-7, CUR-17
    world.set_policy(member, LETTING_GO[member])
    if restarts:
        world = world.restart(**QUIET)
    world.advance(HOUR_MS)
    topic = world.state.topics_by_name[TOPIC]
    assert topic.cursors["s"].backlog() == ENTRIES
    assert len(topic.ledger.ledgers) == 3

    world.ask(lambda core: core.append(DamageAccepted(topic.topic_id)))
    world = world.restart(**QUIET)
    world.advance(HOUR_MS)
    cursor = world.state.topics_by_name[TOPIC].cursors.get("s")
    assert cursor is None or cursor.backlog() < ENTRIES - 1


def test_what_everybody_consumed_stays_while_the_policy_may_be_lost(world: World) -> None:
    # covers RET-1
    topic = world.state.topics_by_name[TOPIC]
    world.ask(lambda core: cursor_moves.clear_backlog(core, core.topics[TOPIC].subscriptions["s"]))
    world.advance(HOUR_MS)
    assert topic.cursors["s"].backlog() == 0
    assert len(topic.ledger.ledgers) == 3
    world.ask(lambda core: core.append(DamageAccepted(topic.topic_id)))
    again = world.restart(**QUIET)
    again.advance(HOUR_MS)
    assert len(again.state.topics_by_name[TOPIC].ledger.ledgers) < 3
