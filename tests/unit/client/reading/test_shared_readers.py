"""Many readers on one connection: each has its own messages, and none holds up the others; inboxes and permits."""

from __future__ import annotations

import threading

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectionLost
from spark_pulsar.client.reading.fetch import Fetch
from spark_pulsar.client.reading.inbox import Inbox
from spark_pulsar.client.reading.permits import Permits
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.entries.entry_blocks import EntryBlock, block_of
from spark_pulsar.wire.entries.messages import consumer_id_of
from spark_pulsar.wire.protocol.commands import success
from spark_pulsar.wire.protocol.frames import Frame, FrameSplitter
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.eventually import eventually
from tests.unit.client.peer import Caller, Peer, message

TOPICS = [f"persistent://public/default/t-partition-{number}" for number in range(50)]


def ids_of(fetch: Fetch, count: int) -> list[tuple[int, int]]:
    """The first entries, once they have come."""
    found: list[tuple[int, int]] = []
    while len(found) < count:
        block = fetch.next_block(10_000)
        assert block is not None
        found += zip(block.ledger_ids, block.entry_ids, strict=True)
    return found


@pytest.mark.parametrize("consumer_id", [0, 1, 127, 128, 300, 2**40])
def test_a_frame_tells_its_consumer(consumer_id: int) -> None:
    [frame] = FrameSplitter(1 << 20).feed(message(consumer_id, MessageId(1, 0)))
    assert consumer_id_of(frame.buffer, frame.start) == consumer_id


def test_each_reader_gets_its_own_messages_on_one_connection(peer: Peer, client: PulsarClient) -> None:
    by_consumer: dict[int, int] = {}

    def subscribed(caller: Caller, command: BaseCommand, _: bytes) -> None:
        by_consumer[command.subscribe.consumer_id] = TOPICS.index(command.subscribe.topic)
        caller.send(success(command.subscribe.request_id))

    def all_in_turn(caller: Caller, command: BaseCommand, _: bytes) -> None:
        if len(peer.of(BaseCommand.FLOW)) == len(TOPICS):  # the last one: now to everybody, message by message
            frames = [message(id, MessageId(number, turn)) for turn in range(3) for id, number in by_consumer.items()]
            caller.send(*frames)

    peer.handlers |= {BaseCommand.SUBSCRIBE: subscribed, BaseCommand.FLOW: all_in_turn}
    arrived = threading.Event()
    fetches = [client.fetch(topic, MessageId(0, 0), arrived=arrived, is_shared=True) for topic in TOPICS]
    before = threading.active_count()
    polled = [fetch.poll(Deadline(10_000, "polling", "here")) for fetch in fetches]
    assert polled[:-1] == [None] * (len(fetches) - 1)  # the last may have some already
    assert threading.active_count() <= before + 2  # the peer's and ours, of one connection
    for number, (fetch, block) in enumerate(zip(fetches, polled, strict=True)):
        begun = [] if block is None else list(zip(block.ledger_ids, block.entry_ids, strict=True))
        assert begun + ids_of(fetch, 3 - len(begun)) == [(number, turn) for turn in range(3)]
    assert len({number for number, command, _ in peer.seen if command.type == BaseCommand.SUBSCRIBE}) == 1
    fetches[0].close()
    eventually(lambda: len(peer.of(BaseCommand.CLOSE_CONSUMER)) == 1)
    assert fetches[1].is_attached
    for fetch in fetches:
        fetch.close()


def test_a_reader_that_is_sent_too_much_is_given_up_and_reads_on(peer: Peer, client: PulsarClient) -> None:
    starts: dict[int, int] = {}

    def subscribed(caller: Caller, command: BaseCommand, _: bytes) -> None:
        starts[command.subscribe.consumer_id] = command.subscribe.start_message_id.entryId
        caller.send(success(command.subscribe.request_id))

    def too_much(caller: Caller, command: BaseCommand, _: bytes) -> None:
        consumer_id = command.flow.consumer_id
        first = starts[consumer_id]
        starts[consumer_id] = first + 40
        for number in range(40):  # one write each
            caller.send(message(consumer_id, MessageId(1, first + number), b"x" * 1_000))

    peer.handlers |= {BaseCommand.SUBSCRIBE: subscribed, BaseCommand.FLOW: too_much}
    other = client.fetch(TOPICS[1], MessageId(1, 10**6), is_shared=True, max_queued_bytes=1 << 20)
    fetch = client.fetch(TOPICS[0], MessageId(1, 0), is_shared=True, max_queued_bytes=1_000)
    assert ids_of(other, 40)[0] == (1, 10**6)
    found = ids_of(fetch, 1)
    eventually(lambda: not fetch.is_attached)  # more has come meanwhile than it may hold
    while len(found) < 200:
        found += ids_of(fetch, 1)
    assert found[:200] == [(1, number) for number in range(200)]
    assert len([one for one in peer.of(BaseCommand.SUBSCRIBE) if one.subscribe.topic == TOPICS[0]]) > 1
    assert other.is_attached
    assert len(peer.callers) <= 2  # look-ups, and the broker's address
    fetch.close()
    other.close()


def _frames(*parts: bytes) -> list[Frame]:
    return FrameSplitter().feed(b"".join(parts))


def _ids(block: EntryBlock) -> list[tuple[int, int]]:
    return list(zip(block.ledger_ids, block.entry_ids, strict=True))


# ---- inbox


def test_the_inbox_pauses_and_resumes_reading() -> None:
    calls: list[str] = []
    inbox = Inbox(300, lambda: calls.append("pause"), lambda: calls.append("resume"))
    run = _frames(message(1, MessageId(1, 0), b"x" * 100))
    inbox.messages(run)
    assert not calls
    inbox.messages(run)
    inbox.messages(run)
    assert calls == ["pause"]
    assert len(inbox.receive(0)) == 3  # what has piled up comes together
    assert calls[-1] == "resume"
    assert inbox.empty


def test_an_inbox_that_is_given_up_never_pauses_its_connection() -> None:
    calls: list[str] = []
    inbox = Inbox(1, lambda: calls.append("pause"), lambda: calls.append("resume"))
    run = _frames(message(1, MessageId(1, 0)))
    inbox.messages(run)
    inbox.release()
    inbox.messages(run)  # the reader thread had these in hand already
    assert calls == ["pause", "resume"]


def test_the_inbox_hands_out_what_arrived_before_the_loss() -> None:
    inbox = Inbox(1 << 20, lambda: None, lambda: None)
    inbox.messages(_frames(message(1, MessageId(1, 0))))
    inbox.detached(ConnectionLost("gone"))
    assert len(inbox.receive(1_000)) == 1
    assert inbox.receive(1_000_000) == []  # does not wait
    assert isinstance(inbox.lost, ConnectionLost)


def test_frames_of_different_buffers_are_different_runs() -> None:
    inbox = Inbox(1 << 20, lambda: None, lambda: None)
    inbox.messages(
        _frames(message(1, MessageId(1, 0))) + _frames(message(1, MessageId(1, 1)), message(1, MessageId(1, 2)))
    )
    runs = inbox.receive(0)
    assert [len(run) for run in runs] == [1, 2]
    assert _ids(block_of(runs, 1, -1, "t")) == [(1, 0), (1, 1), (1, 2)]


# ---- permits


def test_permits_follow_the_sizes_seen() -> None:
    permits = Permits(1_000_000)
    first = permits.grant()
    assert 0 < first <= 1_000
    assert permits.grant() == 0
    permits.received(first, first, first * 100)
    assert permits.grant() == 10_000  # a budget of 1 MB at 100 bytes each
    permits.received(4_000, 4, 400_000)
    assert permits.grant() == 0  # more than half is still out
    permits.received(1_500, 2, 150_000)
    assert permits.grant() == 5_500


def test_permits_do_not_reach_beyond_the_entries_left() -> None:
    permits = Permits(1 << 30)
    permits.entries_left = 3
    assert permits.grant() == 3
    permits.received(1_000, 1, 100_000)  # one entry, sent whole
    permits.entries_left = 2
    assert permits.grant() == 2_000 - (3 - 1_000)
    permits.received(2_000, 2, 200_000)


def test_permits_start_anew_with_a_consumer() -> None:
    permits = Permits(1_000)
    permits.grant()
    permits.reset()
    assert permits.grant() > 0
    assert permits.grant() == 0
    assert permits.grant_again() > 0


def test_permits_never_exceed_the_receiver_queue() -> None:
    # covers READ-43
    for queue, most in ((3, 3), (0, 1)):
        permits = Permits(1 << 20, most=queue)
        assert permits.grant() == most
        assert permits.grant() == 0
        permits.received(most, 1, 10)
        assert permits.grant() == most
