"""A fetch against a peer that does what a healthy broker does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ClientClosed, EndNotReached, OperationTimeout
from spark_pulsar.model.errors import ChecksumFailed, MetadataError, ServiceNotReady
from spark_pulsar.model.positions.ids import EARLIEST_ID, MessageId
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.eventually import eventually
from tests.unit.client.peer import Caller, Peer, message

MakeClient = Callable[..., PulsarClient]
TOPIC = "persistent://public/default/t"


class Log:
    """Entries that the peer delivers to a reader, from its start on, when permits come."""

    def __init__(self, peer: Peer, ids: list[tuple[int, int]]) -> None:
        self.ids = ids
        self.cut_after: int | None = None
        """Close the connection after so many entries, once."""
        self.frame: Callable[[int, MessageId], bytes] = lambda consumer_id, one: message(
            consumer_id, one, str(one).encode()
        )
        self._starts: dict[int, tuple[int, int]] = {}
        peer.last = MessageId(*ids[-1])
        peer.handlers[BaseCommand.SUBSCRIBE] = self._subscribe
        peer.handlers[BaseCommand.FLOW] = self._flow

    def _subscribe(self, caller: Caller, command: BaseCommand, _: bytes) -> None:
        start = command.subscribe.start_message_id
        unsigned = 2**64 - 1
        at = (-1, -1) if start.ledgerId == unsigned else (start.ledgerId, start.entryId)
        self._starts[command.subscribe.consumer_id] = at
        caller.send(commands.success(command.subscribe.request_id))

    def _flow(self, caller: Caller, command: BaseCommand, _: bytes) -> None:
        consumer_id = command.flow.consumer_id
        start = self._starts[consumer_id]
        to_send = [one for one in self.ids if one >= start][: command.flow.messagePermits]
        if self.cut_after is not None:
            to_send = to_send[: self.cut_after]
        for one in to_send:
            caller.send(self.frame(consumer_id, MessageId(*one)))
            self._starts[consumer_id] = (one[0], one[1] + 1)
        if self.cut_after is not None:
            self.cut_after = None
            caller.close()


def _read(client: PulsarClient, start: MessageId, end: MessageId) -> list[tuple[int, int]]:
    with client.fetch(TOPIC, start, end) as fetch:
        return [one for block in fetch for one in zip(block.ledger_ids, block.entry_ids, strict=True)]


def test_reading_goes_on_after_a_cut_without_loss_or_repetition(peer: Peer, client_of: MakeClient) -> None:
    log = Log(peer, [(1, i) for i in range(10)] + [(4, i) for i in range(5)])
    log.cut_after = 7
    assert _read(client_of(peer.url), EARLIEST_ID, MessageId(4, 5)) == log.ids
    starts = [command.subscribe.start_message_id for command in peer.of(BaseCommand.SUBSCRIBE)]
    assert [(start.ledgerId, start.entryId) for start in starts[1:]] == [(1, 7)]
    names = {command.subscribe.subscription for command in peer.of(BaseCommand.SUBSCRIBE)}
    assert len(names) == 2  # the first reader may still hold its name


def test_a_consumer_closed_by_the_broker_attaches_again(peer: Peer, client_of: MakeClient) -> None:
    log = Log(peer, [(1, i) for i in range(4)])
    flow = peer.handlers[BaseCommand.FLOW]

    def close_first(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if len(peer.of(BaseCommand.FLOW)) == 1:
            caller.send(
                message(command.flow.consumer_id, MessageId(1, 0)), commands.close_consumer(command.flow.consumer_id)
            )
        else:
            flow(caller, command, payload)

    peer.handlers[BaseCommand.FLOW] = close_first
    assert _read(client_of(peer.url), EARLIEST_ID, MessageId(1, 4)) == log.ids


def test_a_consumer_closed_again_and_again_is_attached_after_pauses(peer: Peer, client_of: MakeClient) -> None:
    peer.last = MessageId(1, 3)
    peer.handlers[BaseCommand.FLOW] = lambda caller, command, _: (
        caller.send(commands.close_consumer(command.flow.consumer_id))
        if len(peer.of(BaseCommand.SUBSCRIBE)) < 100
        else None
    )
    client = client_of(peer.url, operation_timeout_ms=1_000)
    with client.fetch(TOPIC, EARLIEST_ID, MessageId(1, 4)) as fetch:
        assert fetch.next_block(500) is None
        before = len(peer.of(BaseCommand.SUBSCRIBE))
        assert fetch.poll(Deadline(60_000, "polling", peer.url)) is None  # others do not wait for the pause of this one
        with pytest.raises(OperationTimeout, match="1000 ms waiting for entry"):
            next(iter(fetch))
        assert 1 < before <= len(peer.of(BaseCommand.SUBSCRIBE)) < 12
        Log(peer, [(1, i) for i in range(4)])
        block = fetch.next_block(30_000)
        assert block is not None
        assert block.entry_ids[0] == 0


def test_a_reader_that_the_broker_no_longer_knows_attaches_again(peer: Peer, client_of: MakeClient) -> None:
    # As while it unloads a topic: the request has crossed the news that the consumer is closed.
    log = Log(peer, [(1, i) for i in range(4)])
    whole, log.ids = log.ids, log.ids[:1]
    answer = peer.handlers[BaseCommand.GET_LAST_MESSAGE_ID]

    def unknown_once(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if len(peer.of(BaseCommand.GET_LAST_MESSAGE_ID)) == 2:
            log.ids = whole
            peer.last = MessageId(1, 3)
            caller.refuse(command, MetadataError("Consumer not found"))
        else:
            answer(caller, command, payload)

    peer.last = MessageId(1, 0)
    peer.handlers[BaseCommand.GET_LAST_MESSAGE_ID] = unknown_once
    assert _read(client_of(peer.url), EARLIEST_ID, MessageId(1, 4)) == whole


def test_a_broker_that_is_not_ready_is_asked_again(peer: Peer, client_of: MakeClient) -> None:
    log = Log(peer, [(1, 0)])
    subscribe = peer.handlers[BaseCommand.SUBSCRIBE]

    def not_ready(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if len(peer.of(BaseCommand.SUBSCRIBE)) < 3:
            caller.refuse(command, ServiceNotReady("Please redo the lookup"))
        else:
            subscribe(caller, command, payload)

    peer.handlers[BaseCommand.SUBSCRIBE] = not_ready
    assert _read(client_of(peer.url), EARLIEST_ID, MessageId(1, 1)) == log.ids
    assert len(peer.of(BaseCommand.LOOKUP)) == 3


@pytest.mark.parametrize("kind", [BaseCommand.SUBSCRIBE, BaseCommand.GET_LAST_MESSAGE_ID])
def test_a_reader_whose_request_is_lost_is_replaced(kind: int, peer: Peer, client_of: MakeClient) -> None:
    log = Log(peer, [(1, i) for i in range(5)])
    peer.lose(kind)
    assert _read(client_of(peer.url, operation_timeout_ms=2_000), EARLIEST_ID, MessageId(1, 5)) == log.ids
    assert len(peer.of(BaseCommand.SUBSCRIBE)) == 2


def test_a_reader_that_falls_silent_in_the_middle_is_replaced(peer: Peer, client_of: MakeClient) -> None:
    # The log grows after its end was asked for, so the reader asks again before it waits; that request is lost.
    log = Log(peer, [(1, 0)])
    with client_of(peer.url, operation_timeout_ms=2_000).fetch(TOPIC, EARLIEST_ID, MessageId(1, 2)) as fetch:
        assert fetch.next_block(3_000) is not None
        peer.lose(BaseCommand.GET_LAST_MESSAGE_ID)
        log.ids.append((1, 1))
        peer.last = MessageId(1, 1)
        assert [list(block.entry_ids) for block in fetch] == [[1]]
    assert len(peer.of(BaseCommand.SUBSCRIBE)) == 2


@pytest.mark.parametrize("end", [MessageId(1, 4), MessageId(1, 3, -1, 2), MessageId(2, 0)])
def test_an_end_that_vanished_is_passed(end: MessageId, peer: Peer, client_of: MakeClient) -> None:
    # The entries before the end and the end itself were compacted away; what follows proves it.
    # covers W7
    Log(peer, [(1, 0), (1, 2), (5, 0), (5, 1)])
    assert _read(client_of(peer.url), MessageId(1, 0), end) == [(1, 0), (1, 2)]


def test_an_empty_topic_cannot_reach_an_end(peer: Peer, client_of: MakeClient) -> None:
    with pytest.raises(EndNotReached, match="the topic is empty"):
        _read(client_of(peer.url), MessageId(1, 0), MessageId(1, 9))


def test_an_entry_that_must_exist_but_never_comes(peer: Peer, client_of: MakeClient) -> None:
    Log(peer, [(1, 0), (1, 1)])
    del peer.handlers[BaseCommand.FLOW]
    with pytest.raises(OperationTimeout, match=rf"600 ms waiting for entry 1:0:-1:-1 of {TOPIC} at {peer.url}"):
        _read(client_of(peer.url, operation_timeout_ms=600), MessageId(1, 0), MessageId(1, 2))


def test_a_broker_that_counts_permits_differently_gets_more(peer: Peer, client_of: MakeClient) -> None:
    # covers W5
    log = Log(peer, [(1, i) for i in range(3)])
    flow = peer.handlers[BaseCommand.FLOW]

    def lose_first(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if len(peer.of(BaseCommand.FLOW)) > 1:
            flow(caller, command, payload)

    peer.handlers[BaseCommand.FLOW] = lose_first
    assert _read(client_of(peer.url), EARLIEST_ID, MessageId(1, 3)) == log.ids


def test_a_damaged_entry_is_an_error_not_a_row(peer: Peer, client_of: MakeClient) -> None:
    log = Log(peer, [(1, 0)])
    whole = log.frame
    log.frame = lambda consumer_id, one: whole(consumer_id, one)[:-1] + b"!"
    with pytest.raises(ChecksumFailed, match=f"{TOPIC}: .*entry 1:0 "):
        _read(client_of(peer.url), EARLIEST_ID, MessageId(1, 1))


def test_who_asks_again_after_a_damaged_entry_gets_that_entry(peer: Peer, client_of: MakeClient) -> None:
    log = Log(peer, [(1, i) for i in range(4)])
    whole = log.frame

    def damaged_once(consumer_id: int, one: MessageId) -> bytes:
        damaged = one.entry_id == 1 and len(peer.of(BaseCommand.SUBSCRIBE)) == 1
        return whole(consumer_id, one)[:-1] + (b"!" if damaged else whole(consumer_id, one)[-1:])

    log.frame = damaged_once
    read: list[tuple[int, int]] = []
    failures = 0
    with client_of(peer.url).fetch(TOPIC, EARLIEST_ID, MessageId(1, 4)) as fetch:
        while not fetch.finished:
            try:
                block = fetch.next_block(10_000)
            except ChecksumFailed:
                failures += 1
                continue
            assert block is not None
            read += zip(block.ledger_ids, block.entry_ids, strict=True)
    assert read == log.ids
    assert failures == 1


def test_permits_stop_at_the_end_of_the_range(peer: Peer, client_of: MakeClient) -> None:
    Log(peer, [(1, i) for i in range(500)])
    assert _read(client_of(peer.url), MessageId(1, 10), MessageId(1, 13)) == [(1, 10), (1, 11), (1, 12)]
    assert sum(command.flow.messagePermits for command in peer.of(BaseCommand.FLOW)) == 3


def test_nothing_is_opened_for_an_empty_range(peer: Peer, client: PulsarClient) -> None:
    assert _read(client, MessageId(1, 5), MessageId(1, 5, -1, 0)) == []
    assert _read(client, MessageId(2, 0), MessageId(1, 5)) == []
    assert not peer.callers


def test_a_slow_taker_holds_the_broker_back_and_stays_connected(peer: Peer, client_of: MakeClient) -> None:
    entries = 400
    log = Log(peer, [(1, i) for i in range(entries)])
    log.frame = lambda consumer_id, one: message(consumer_id, one, bytes(64 * 1024))
    sent: list[int] = []
    whole = log.frame

    def counted(consumer_id: int, one: MessageId) -> bytes:
        sent.append(one.entry_id)
        return whole(consumer_id, one)

    log.frame = counted
    client = client_of(peer.url, keep_alive_interval_ms=400)
    with client.fetch(TOPIC, EARLIEST_ID, MessageId(1, entries), max_queued_bytes=1 << 20) as fetch:
        first = fetch.next_block(5_000)
        assert first is not None
        peer.wait_for(BaseCommand.PING, 3)  # a second in which nobody takes anything
        assert len(sent) < entries
        rest = [entry for block in fetch for entry in block.entry_ids]
    assert list(first.entry_ids) + rest == list(range(entries))
    assert len(peer.of(BaseCommand.SUBSCRIBE)) == 1


def test_a_closed_fetch_gives_its_reader_up(peer: Peer, client_of: MakeClient) -> None:
    Log(peer, [(1, 0), (1, 1)])
    fetch = client_of(peer.url).fetch(TOPIC, EARLIEST_ID)
    fetch.next_block(1_000)
    fetch.close()
    fetch.close()
    assert len(peer.of(BaseCommand.CLOSE_CONSUMER)) == 1
    with pytest.raises(ClientClosed):
        fetch.next_block(10)


def test_the_next_fetch_uses_the_same_connection(peer: Peer, client: PulsarClient) -> None:
    Log(peer, [(1, 0), (1, 1)])
    for _ in range(3):
        assert _read(client, EARLIEST_ID, MessageId(1, 2)) == [(1, 0), (1, 1)]
    assert len(peer.callers) == 2  # one for look-ups, one for readers


def test_a_reader_that_does_not_close_costs_its_connection_only(peer: Peer, client_of: MakeClient) -> None:
    Log(peer, [(1, 0)])
    client = client_of(peer.url, operation_timeout_ms=5_000)
    peer.handlers[BaseCommand.CLOSE_CONSUMER] = lambda caller, command, _: caller.close()
    assert _read(client, EARLIEST_ID, MessageId(1, 1)) == [(1, 0)]
    assert _read(client, EARLIEST_ID, MessageId(1, 1)) == [(1, 0)]
    eventually(lambda: len(peer.callers) == 3)
