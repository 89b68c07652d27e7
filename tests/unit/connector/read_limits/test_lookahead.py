"""Counting ahead: what was counted, and what happens when the broker sends nothing more."""

from __future__ import annotations

import time

import numpy as np
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.read_limits.admission import Limits
from spark_pulsar.connector.read_limits.counting import Counted
from spark_pulsar.connector.read_limits.lookahead import LookAhead
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.protocol.commands import success
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.client.peer import Caller, Peer, message

TOPIC = "persistent://public/default/t"


def counted(*entries: tuple[int, int, int]) -> Counted:
    ledgers, numbers, counts = (np.array(column, np.int64) for column in zip(*entries, strict=True))
    costs, nothing = counts * 10, np.zeros(len(counts), np.int64)
    return Counted(ledgers, numbers, counts, costs, nothing, nothing - 1, int(counts.sum()), int(costs.sum()))


BLOCK = counted((5, 8, 1), (5, 9, 10), (6, 0, 0), (6, 1, 3))


def test_places_in_a_block() -> None:
    assert (BLOCK.first, BLOCK.after) == (ReadPosition(5, 8), ReadPosition(6, 2))
    places = [ReadPosition(5, 0), ReadPosition(5, 9), ReadPosition(5, 9, 4), ReadPosition(5, 12), ReadPosition(6, 2)]
    assert [BLOCK.index_of(place) for place in places] == [0, 1, 1, 2, 4]
    assert [BLOCK.count_in_entry(place) for place in places] == [0, 0, 4, 0, 0]
    assert BLOCK.count_in_entry(ReadPosition(6, 1, 9)) == 3
    assert BLOCK.part(1, 3).total == 10


def test_a_silent_broker_makes_batches_smaller_and_not_larger(peer: Peer, client: PulsarClient) -> None:
    peer.last = MessageId(1, 9)

    def three_messages(caller: Caller, command: BaseCommand, _: bytes) -> None:
        if len(peer.of(BaseCommand.FLOW)) == 1:
            caller.send(*[message(command.flow.consumer_id, MessageId(1, number)) for number in range(3)])

    peer.handlers[BaseCommand.FLOW] = three_messages
    end = {TOPIC: ReadPosition(1, 10)}
    ahead = LookAhead(client, 200)
    at = {TOPIC: EARLIEST}
    while at[TOPIC] < (1, 3, 0):
        try:
            at = ahead.gathering(end).end_within(at, Limits(3))
        except OperationTimeout:  # the three have not arrived yet
            continue
    assert at == {TOPIC: ReadPosition(1, 3)}
    assert ahead.gathering(end).end_within({TOPIC: ReadPosition(1, 1)}, Limits(5)) == at  # two of five
    with pytest.raises(OperationTimeout, match=f"after 200 ms waiting for the next entry of {TOPIC}"):
        ahead.gathering(end).end_within(at, Limits(3))
    peer.last = MessageId(1, 2)
    assert (
        ahead.gathering(end).end_within(at, Limits(3)) == end
    )  # nothing more can come: the task that reads the range says so
    ahead.close()


def test_silent_partitions_are_waited_for_together(peer: Peer, client: PulsarClient) -> None:
    peer.last = MessageId(1, 9)
    topics = [f"{TOPIC}-partition-{number}" for number in range(20)]
    by_consumer: dict[tuple[int, int], str] = {}

    def subscribed(caller: Caller, command: BaseCommand, _: bytes) -> None:
        by_consumer[(caller.number, command.subscribe.consumer_id)] = command.subscribe.topic
        caller.send(success(command.subscribe.request_id))

    def one_speaks(caller: Caller, command: BaseCommand, _: bytes) -> None:
        consumer_id = command.flow.consumer_id
        if by_consumer[(caller.number, consumer_id)] == topics[-1]:
            caller.send(message(consumer_id, MessageId(1, 0)), message(consumer_id, MessageId(1, 1)))

    peer.handlers |= {BaseCommand.SUBSCRIBE: subscribed, BaseCommand.FLOW: one_speaks}
    end = dict.fromkeys(topics, ReadPosition(1, 10))
    ahead = LookAhead(client, 1_000)
    begun = time.monotonic()
    at = ahead.gathering(end).end_within({}, Limits(200))
    assert time.monotonic() - begun < 5  # not twenty times the time-out
    assert at == dict.fromkeys(topics[:-1], EARLIEST) | {topics[-1]: ReadPosition(1, 2)}
    begun = time.monotonic()
    with pytest.raises(OperationTimeout, match="after 1000 ms waiting for the next entry of"):
        ahead.gathering(end).end_within(at, Limits(200))
    assert time.monotonic() - begun < 5
    ahead.close()


def test_a_broker_that_answers_nothing_is_waited_for_once(peer: Peer, client: PulsarClient) -> None:
    peer.last = MessageId(1, 9)
    topics = [f"{TOPIC}-partition-{number}" for number in range(20)]
    client.end_positions(topics)
    peer.handlers.clear()
    ahead = LookAhead(client, 1_000)
    begun = time.monotonic()
    with pytest.raises(OperationTimeout, match=r"timed out after .* opening a reader"):
        ahead.gathering(dict.fromkeys(topics, ReadPosition(1, 10))).end_within({}, Limits(200))
    assert time.monotonic() - begun < 5
    ahead.close()


def test_a_topic_made_again_is_counted_from_its_start(peer: Peer, client: PulsarClient) -> None:
    ledger_id = 7

    def two_messages(caller: Caller, command: BaseCommand, _: bytes) -> None:
        caller.send(*[message(command.flow.consumer_id, MessageId(ledger_id, number)) for number in range(2)])

    peer.handlers[BaseCommand.FLOW] = two_messages
    ahead = LookAhead(client, 10_000)
    at = ahead.gathering({TOPIC: ReadPosition(7, 2)}).end_within({}, Limits(1))
    assert at == {TOPIC: ReadPosition(7, 1)}
    assert ahead.gathering({TOPIC: ReadPosition(7, 2)}).end_within(at, Limits(5)) == {TOPIC: ReadPosition(7, 2)}
    ledger_id = 1  # on a broker that began anew
    assert ahead.gathering({TOPIC: ReadPosition(1, 2)}).end_within({}, Limits(5)) == {TOPIC: ReadPosition(1, 2)}
    ahead.close()


def test_an_index_behind_the_last_message_of_an_entry_makes_nobody_count_the_whole_topic(
    peer: Peer, client: PulsarClient
) -> None:
    def as_many_as_permitted(caller: Caller, command: BaseCommand, _: bytes) -> None:
        first = sum(flow.flow.messagePermits for flow in peer.of(BaseCommand.FLOW)[:-1])
        ids = (MessageId(1, first + number) for number in range(command.flow.messagePermits))
        caller.send(*[message(command.flow.consumer_id, one) for one in ids])

    peer.handlers[BaseCommand.FLOW] = as_many_as_permitted
    ahead = LookAhead(client, 10_000)
    end = {TOPIC: ReadPosition(1, 10**9)}
    assert ahead.gathering(end).end_within({TOPIC: ReadPosition(1, 0, 2**31 - 1)}, Limits(3)) == {
        TOPIC: ReadPosition(1, 4)
    }
    assert len(peer.of(BaseCommand.FLOW)) < 5
    ahead.close()


@pytest.mark.parametrize(("partitions", "keeps", "kept"), [(32, True, True), (33, True, False), (2, False, False)])
def test_entries_are_kept_only_where_a_small_micro_batch_may_come(
    partitions: int, keeps: bool, kept: bool, peer: Peer, client: PulsarClient
) -> None:
    peer.answer(BaseCommand.FLOW, lambda asked: message(asked.consumer_id, MessageId(1, 0)))
    peer.last = MessageId(1, 0)  # it is asked for this if the entries are slow to come
    topics = [f"{TOPIC}-partition-{number}" for number in range(partitions)]
    end = dict.fromkeys(topics, ReadPosition(1, 1))
    ahead = LookAhead(client, 10_000, keeps_entries=keeps)
    assert ahead.gathering(end).end_within({}, Limits(100)) == end
    assert [ahead.partition(topic).has_kept(EARLIEST) for topic in topics] == [kept] * partitions
    ahead.close()


def test_the_first_entry_shows_that_a_micro_batch_is_large(peer: Peer, client: PulsarClient) -> None:
    def thousands(caller: Caller, command: BaseCommand, _: bytes) -> None:
        ids = (MessageId(1, number) for number in range(3)) if len(peer.of(BaseCommand.FLOW)) == 1 else ()
        caller.send(*[message(command.flow.consumer_id, one, bytes(8_000), num_messages_in_batch=1000) for one in ids])

    peer.handlers[BaseCommand.FLOW] = thousands
    ahead = LookAhead(client, 10_000)
    start, end = {TOPIC: EARLIEST}, {TOPIC: ReadPosition(1, 3)}
    assert not ahead.has_all(start, end, 2_999, 10_000)
    assert ahead.partition(TOPIC).peek(EARLIEST, end[TOPIC]).total == 0, "nothing is counted, so no kernel is loaded"
    assert ahead.has_all(start, end, 3_000, 10_000)
    assert ahead.partition(TOPIC).peek(EARLIEST, end[TOPIC]).total == 3_000
    ahead.close()
