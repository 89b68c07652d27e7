"""Truncating a topic: everybody stands at the end, storage gives back what it can."""

from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topic_log import termination
from tests.unit.broker.world import KEPT, QUIET, TOPIC, entry, producing


def test_a_truncated_topic_gives_back_what_retention_would_keep() -> None:
    # covers REST 1.4 (truncate), RET-1
    world, feeder = producing(**QUIET, **KEPT)
    eater = world.connect_consumer(permits=1)
    world.connect_consumer("reader", durable=False)
    feeder.publish(1, entry("a"), entry("b"))
    topic = world.core.topics[TOPIC]
    world.ask(lambda core: cursor_moves.truncate(core, topic))
    assert [each.backlog for each in topic.subscriptions.values()] == [0, 0]
    assert topic.ledger.size_bytes == 0
    eater.take_all()
    feeder.publish(1, entry("c"), first=2)
    assert eater.messages() == []  # its permit went with "a"
    assert topic.subscriptions["s"].backlog == 1
    world = world.restart()
    assert world.connect_consumer(permits=5).messages() == ["c"]


def test_a_topic_that_has_ended_keeps_its_last_ledger_and_an_empty_one_is_left_alone() -> None:
    # covers REST 1.4 (truncate), TN-13
    world, client = producing(**QUIET)
    topic = world.core.topics[TOPIC]
    world.ask(lambda core: cursor_moves.truncate(core, topic))
    assert topic.ledger.ledger_ids() == [1]
    client.publish(1, entry("a"))
    world.ask(lambda core: termination.terminate(core, topic))
    world.ask(lambda core: cursor_moves.truncate(core, topic))
    assert topic.ledger.ledger_ids() == [1]
