"""Entries of transactions: stored at once, visible after the commit, withheld after an abort."""

from __future__ import annotations

import pytest

from spark_pulsar.broker.topic_log import termination
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn.effects import SendMessages, SendReceipts
from spark_pulsar.model.errors import ServerError
from spark_pulsar.model.positions.ids import MessageId, Position, TransactionId
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.broker.compacting import compact, compacted_view, keyed
from tests.unit.broker.transacting import ON, abort, begin, end, publish_in, ready
from tests.unit.broker.world import TOPIC, Client, World, entry, payloads


def last_id(client: Client) -> tuple[int, int]:
    client.send(requests.last_message_id(client.request_id(), 1))
    found = client.expect(BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE).last_message_id
    return MessageId(found.ledgerId, found.entryId).position if found.ledgerId < 1 << 63 else Position(-1, -1)


def receipts_and_messages(client: Client) -> tuple[list[tuple[int, Position]], list[str]]:
    receipts = [each for each in client.effects if isinstance(each, SendReceipts)]
    messages = [each for each in client.take_all() if isinstance(each, SendMessages)]
    client.effects = list(receipts)
    return client.receipts(), [text for each in messages for text in payloads(each)]


def test_a_topic_with_aborted_entries_alone_has_no_last_message() -> None:
    # covers TX-11, RD-3
    client = World(**ON).connect()
    ready(client)
    txn_id = begin(client)
    publish_in(client, txn_id, "x", "y")
    client.take_all()
    abort(client, txn_id)
    assert last_id(client) == (-1, -1)


def test_nothing_is_visible_before_the_end_is_on_disk() -> None:
    # covers TX-17
    world = World(**ON)
    client = world.connect()
    ready(client)
    txn_id = begin(client)
    publish_in(client, txn_id, "x")
    client.take_all()
    world.disk_is_slow = True
    client.send(requests.end_transaction(client.request_id(), txn_id, commit=True))
    assert client.take_all() == []
    world.sync()
    world.settle()
    assert client.take().type == BaseCommand.END_TXN_RESPONSE
    assert client.messages() == ["x"]


def test_a_commit_is_lost_as_a_whole_when_it_was_not_on_disk() -> None:
    # covers TX-6, TX-17
    world = World(**ON)
    client = world.connect()
    other = "persistent://public/default/other"
    ready(client)
    client.open_producer(other, 2)
    txn_id = begin(client)
    publish_in(client, txn_id, "x")
    publish_in(client, txn_id, "y", producer_id=2)
    client.take_all()
    world.disk_is_slow = True
    client.send(requests.end_transaction(client.request_id(), txn_id, commit=True))
    again = world.restart(**ON)
    client = again.connect()
    client.open_consumer(permits=9)
    client.open_consumer("o", 2, permits=9, topic=other)
    assert client.messages() == []
    assert not end(client, txn_id).HasField("error"), "it is open as before"
    assert sorted(client.messages()) == ["x", "y"]


def test_open_transactions_hold_consumers_back_after_a_restart_too() -> None:
    # covers TX-9, TX-17
    world = World(**ON)
    client = world.connect()
    ready(client)
    txn_id, aborted = begin(client), begin(client)
    client.publish(1, entry("before"))
    publish_in(client, txn_id, "x", first=1)
    publish_in(client, aborted, "gone", first=2)
    client.publish(1, entry("after"), first=3)
    client.take_all()
    abort(client, aborted)
    client = world.restart(**ON).connect()
    client.open_consumer(permits=9)
    assert client.messages() == ["before"]
    end(client, txn_id)
    assert client.messages() == ["x", "after"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_send_in_a_transaction_that_has_ended_is_refused(commit: bool) -> None:
    # covers TX-8
    client = World(**ON).connect()
    ready(client)
    txn_id = begin(client)
    end(client, txn_id, commit=commit)
    for wrong in (txn_id, TransactionId(0, 99), TransactionId(5, 0)):
        publish_in(client, wrong, "late")
        refused = client.expect(BaseCommand.SEND_ERROR)
        assert refused.error == ServerError.NotAllowedError
        assert str(wrong) in refused.message
    client.publish(1, entry("plain"), first=1)
    assert receipts_and_messages(client)[1] == ["plain"]


def test_a_refused_batch_is_named_by_its_highest_sequence_id() -> None:
    # covers TX-8, A2: what the Java client finds its batch by
    client = World(**ON).connect()
    client.open_producer()
    for low, high in ((0, 3), (4, 6)):
        send = requests.send(1, low, high - low + 1, high, transaction=TransactionId(0, 99))
        client.send_bytes(payload_frame(send, entry("late", batch=high - low + 1)))
        assert client.expect(BaseCommand.SEND_ERROR).sequence_id == high


def test_a_run_in_a_transaction_is_one_run() -> None:
    # covers TX-8
    world = World(**ON)
    client = world.connect()
    client.open_producer()
    txn_id = begin(client)
    publish_in(client, txn_id, *("x" * 200), first=1_000)
    (receipts,) = client.take_all()
    assert len(receipts.sequence_ids) == 200
    (entries,) = world.state.transactions[txn_id].entries.values()
    assert list(entries) == [(1, 0, 200)]


def test_repeated_messages_in_a_transaction_are_not_stored_again() -> None:
    # covers TX-18, DED-2
    client = World(deduplication=True, **ON).connect()
    ready(client)
    txn_id = begin(client)
    publish_in(client, txn_id, "x", first=5)
    publish_in(client, txn_id, "x", first=5)
    assert client.receipts() == [(5, (1, 0)), (5, (-1, -1))]
    abort(client, txn_id)
    client.publish(1, entry("x"), first=5)
    assert client.receipts() == [(5, (-1, -1))], "as on Apache Pulsar, the id stays taken"


def test_compaction_leaves_open_and_aborted_entries_out() -> None:
    # covers TX-19
    world = World(**ON)
    client = world.connect()
    client.open_producer()
    client.open_consumer("keep", consumer_id=9)
    client.publish(1, keyed("a", "a1"), keyed("b", "b1"))
    aborted, committed, still_open = begin_three(client)
    send_in(client, aborted, keyed("a", "aborted"), first=2)
    send_in(client, committed, keyed("a", "committed"), first=3)
    send_in(client, still_open, keyed("b", "open"), first=4)
    client.take_all()
    abort(client, aborted)
    end(client, committed)
    compact(world)
    assert [texts for _, texts in compacted_view(world)] == [["b1"], ["committed"]]
    end(client, still_open)
    compact(world)
    assert [texts for _, texts in compacted_view(world)] == [["committed"], ["open"]]


def begin_three(client: Client) -> tuple[TransactionId, ...]:
    client.take_all()
    return tuple(begin(client) for _ in range(3))


def send_in(client: Client, txn_id: TransactionId, stored: bytes, first: int) -> None:
    client.send_bytes(payload_frame(requests.send(1, first, transaction=txn_id), stored))


def test_a_topic_is_deleted_with_its_part_of_a_transaction() -> None:
    # covers TX-26
    world = World(**ON)
    client = world.connect()
    other = "persistent://public/default/other"
    ready(client)
    client.open_producer(other, 2)
    txn_id = begin(client)
    publish_in(client, txn_id, "x")
    publish_in(client, txn_id, "y", producer_id=2)
    client.take_all()

    world.ask(lambda core: lifecycle.delete(core, core.topics[other]))
    client.take_all()
    assert not end(client, txn_id).HasField("error")
    assert client.messages() == ["x"]
    assert other not in world.state.topics_by_name


def test_a_terminated_topic_shows_a_commit_without_a_marker() -> None:
    # covers TX-26
    world = World(**ON)
    client = world.connect()
    ready(client)
    txn_id = begin(client)
    publish_in(client, txn_id, "x")
    client.take_all()
    world.ask(lambda core: termination.terminate(core, core.topics[TOPIC]))
    client.take_all()
    end(client, txn_id)
    assert receipts_and_messages(client)[1] == ["x"]
