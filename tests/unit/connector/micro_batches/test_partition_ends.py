"""Ends that a broker watches: which of them are requested again."""

from __future__ import annotations

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.micro_batches import partition_ends as module
from spark_pulsar.connector.micro_batches.partition_ends import PartitionEnds
from spark_pulsar.connector.positions import ReadPosition
from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.eventually import eventually
from tests.unit.client.peer import Peer, message

TOPICS = [f"persistent://public/default/t-partition-{index}" for index in range(100)]
END = ReadPosition(1, 10)


class Counter:
    """Requests that a peer got since the last call."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._seen: dict[int, int] = {}

    def __call__(self, kind: int) -> int:
        count = len(self._peer.of(kind))
        new = count - self._seen.get(kind, 0)
        self._seen[kind] = count
        return new


@pytest.fixture
def counted(peer: Peer) -> Counter:
    """A broker whose topics have ten entries; its readers are behind the last one."""
    peer.last = MessageId(1, 9)
    peer.answer(
        BaseCommand.GET_LAST_MESSAGE_ID,
        lambda asked: commands.last_message_id(asked.request_id, peer.last, Position(1, 9)),
    )
    return Counter(peer)


def watched(client: PulsarClient) -> PartitionEnds:
    """Ends of all topics, watched."""
    ends = PartitionEnds(client)
    assert ends.request(TOPICS) == dict.fromkeys(TOPICS, END)
    assert ends.watch(dict.fromkeys(TOPICS, END))
    return ends


def consumers(peer: Peer) -> dict[str, int]:
    """Consumer that was attached last, by topic."""
    return {one.subscribe.topic: one.subscribe.consumer_id for one in peer.of(BaseCommand.SUBSCRIBE)}


def test_what_the_broker_watches_is_not_requested(peer: Peer, client: PulsarClient, counted: Counter) -> None:
    # covers READ-38
    ends = watched(client)
    peer.wait_for(BaseCommand.FLOW, len(TOPICS))
    # The readers that requested the ends are those that are sent what comes next.
    assert (counted(BaseCommand.SUBSCRIBE), counted(BaseCommand.GET_LAST_MESSAGE_ID)) == (100, 100)
    assert ends.request(TOPICS) == dict.fromkeys(TOPICS, END)
    assert ends.watch(dict.fromkeys(TOPICS, END))
    assert (counted(BaseCommand.SUBSCRIBE), counted(BaseCommand.GET_LAST_MESSAGE_ID)) == (0, 0)

    peer.last = MessageId(1, 10)
    peer.callers[0].send(message(consumers(peer)[TOPICS[7]], MessageId(1, 10)))
    ends.await_news(5_000)
    assert ends.request(TOPICS) == dict.fromkeys(TOPICS, END) | {TOPICS[7]: ReadPosition(1, 11)}
    assert counted(BaseCommand.GET_LAST_MESSAGE_ID) == 1
    assert ends.watch(dict.fromkeys(TOPICS, END) | {TOPICS[7]: ReadPosition(1, 11)})
    assert [one.subscribe.topic for one in peer.of(BaseCommand.SUBSCRIBE)[100:]] == [TOPICS[7]]


def test_a_lost_reader_is_no_proof(peer: Peer, client: PulsarClient, counted: Counter) -> None:
    # covers OFFSET-23
    ends = watched(client)
    counted(BaseCommand.GET_LAST_MESSAGE_ID)
    peer.callers[0].send(commands.close_consumer(consumers(peer)[TOPICS[3]], 1))
    ends.await_news(5_000)
    ends.request(TOPICS)
    assert client.lost_readers() == {TOPICS[3]}
    assert counted(BaseCommand.GET_LAST_MESSAGE_ID) == 1
    assert ends.watch(dict.fromkeys(TOPICS, END))
    peer.callers[0].close()
    ends.await_news(5_000)
    eventually(lambda: not client.silent_partitions(ends._arrived))
    ends.request(TOPICS)
    assert client.lost_readers() == set(TOPICS)
    assert counted(BaseCommand.GET_LAST_MESSAGE_ID) == 100


def test_messages_hidden_before_the_reader_are_waited_for(peer: Peer, client: PulsarClient, counted: Counter) -> None:
    # An open transaction lies behind the last message: a reader behind it is sent nothing of it.
    peer.answer(
        BaseCommand.GET_LAST_MESSAGE_ID,
        lambda asked: commands.last_message_id(asked.request_id, peer.last, Position(1, 12)),
    )
    watched(client)
    starts = [one.subscribe.start_message_id for one in peer.wait_for(BaseCommand.SUBSCRIBE, 200)[100:]]
    assert {(start.ledgerId, start.entryId) for start in starts} == {(1, 10)}


def test_watched_ends_are_requested_in_turn(
    peer: Peer, client: PulsarClient, counted: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    # covers READ-38
    now_ms = [1_000]
    monkeypatch.setattr(module, "monotonic_ms", lambda: now_ms[0])
    ends = watched(client)
    counted(BaseCommand.GET_LAST_MESSAGE_ID)
    now_ms[0] += module._TRUSTED_MS - 1
    ends.request(TOPICS)
    assert counted(BaseCommand.GET_LAST_MESSAGE_ID) == 0
    now_ms[0] += 1
    requested = []
    for _ in range(3):
        ends.request(TOPICS)
        requested.append(counted(BaseCommand.GET_LAST_MESSAGE_ID))
    assert requested == [64, 36, 0]


def test_partitions_that_come_and_go(peer: Peer, client: PulsarClient, counted: Counter) -> None:
    # covers OFFSET-11
    ends = watched(client)
    counted(BaseCommand.GET_LAST_MESSAGE_ID)
    assert ends.request(TOPICS[:50]) == dict.fromkeys(TOPICS[:50], END)
    assert counted(BaseCommand.GET_LAST_MESSAGE_ID) == 0
    assert ends.request(TOPICS) == dict.fromkeys(TOPICS, END)
    assert counted(BaseCommand.GET_LAST_MESSAGE_ID) == 50
