"""Partitions that keys can be in, against a broker whose number of partitions the test says."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.planning.pruning import CHANGED, KeyPruning
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.positions import ReadPosition
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.protocol.commands import partition_metadata
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.client.peer import Caller, Peer

TOPIC = "persistent://public/default/t"
A, B = 97, 98  # JavaStringHash


class Partitions:
    """Number of partitions that the broker tells, for every topic."""

    def __init__(self) -> None:
        self.peer = Peer()
        self.peer.last = MessageId(1, 9)
        self.peer.handlers[BaseCommand.PARTITIONED_METADATA] = self._answer
        self.count = 4

    def _answer(self, caller: Caller, command: BaseCommand, _: bytes) -> None:
        caller.send(partition_metadata(command.partitionMetadata.request_id, self.count))


@pytest.fixture
def partitions() -> Iterator[Partitions]:
    told = Partitions()
    yield told
    told.peer.close()


def options(told: Partitions, **more: str) -> Options:
    given = {"keys": "a", "keysHashingScheme": "JavaStringHash"} | more
    return parse_options({"service.url": told.peer.url, "topic": TOPIC} | {key: v for key, v in given.items() if v})


def of(*indexes: int) -> list[str]:
    return [f"{TOPIC}-partition-{index}" for index in indexes]


def work(topic: str) -> TopicRange:
    return TopicRange(topic, ReadPosition(1, 0), ReadPosition(1, 5))


def test_only_the_partition_of_the_key_is_read(partitions: Partitions) -> None:
    # covers READ-23
    with PulsarClient(ClientConfig(partitions.peer.url)) as client:
        pruning = KeyPruning(client, options(partitions))
        counts = pruning.partition_counts(of(0, 1, 2, 3), {})
        assert counts == {TOPIC: 4}
        assert [one.topic for one in pruning.ranges([work(topic) for topic in of(0, 1, 2, 3)], counts)] == of(A % 4)
        assert pruning.split(dict.fromkeys(of(0, 1), "end"), counts) == ({of(1)[0]: "end"}, {of(0)[0]: "end"})
        both = KeyPruning(client, options(partitions, keys="a,b"))
        assert list(both.split(dict.fromkeys(of(0, 1, 2, 3)), counts)[0]) == of(A % 4, B % 4)


def test_all_are_read_without_the_hashing_of_producers(partitions: Partitions) -> None:
    # covers READ-23
    with PulsarClient(ClientConfig(partitions.peer.url)) as client:
        pruning = KeyPruning(client, options(partitions, keysHashingScheme=""))
        assert pruning.partition_counts(of(0, 1), {}) == {}
        assert pruning.split(dict.fromkeys(of(0, 1)), {TOPIC: 4})[1] == {}


def test_topics_without_partitions_are_read_whole(partitions: Partitions) -> None:
    partitions.count = 0
    with PulsarClient(ClientConfig(partitions.peer.url)) as client:
        pruning = KeyPruning(client, options(partitions))
        # the second one looks like a partition, and is a topic of its own
        counts = pruning.partition_counts([TOPIC, *of(3)], {})
        assert pruning.split(dict.fromkeys([TOPIC, *of(3)]), counts)[1] == {}


def test_a_number_of_partitions_that_changes_is_remembered(
    partitions: Partitions, caplog: pytest.LogCaptureFixture
) -> None:
    # covers OFFSET-15
    with PulsarClient(ClientConfig(partitions.peer.url)) as client:
        pruning = KeyPruning(client, options(partitions))
        with caplog.at_level(logging.WARNING, "spark_pulsar"):
            counts = pruning.partition_counts(of(0), {TOPIC: 3})
            assert counts == {TOPIC: CHANGED}
            assert pruning.partition_counts(of(0), counts) == counts
        assert [record.getMessage().split(":", 2)[1] for record in caplog.records] == [
            "//public/default/t has 4 partitions and had 3"
        ]
        assert pruning.split(dict.fromkeys(of(0, 1, 2, 3)), counts)[1] == {}


def test_offsets_pass_partitions_that_are_not_read(partitions: Partitions) -> None:
    # covers OFFSET-15
    more = {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    with PulsarClient(ClientConfig(partitions.peer.url)) as client:
        planner = OffsetPlanner(client, options(partitions, **more))
        start = SourceOffset(dict.fromkeys(of(0, 1, 2, 3), ReadPosition(1, 2)), partition_counts={TOPIC: 4})
        end = planner.latest(start, None)
        assert end.positions == dict.fromkeys(of(0, 1, 2, 3), ReadPosition(1, 10))
        assert SourceOffset.from_json(end.to_json()) == end
        assert [one.topic for one in planner.ranges(start, end)] == of(1)
        assert planner.latest(end, None) is end
        partitions.count, partitions.peer.last = 5, MessageId(1, 19)
        known = SourceOffset(dict.fromkeys(of(0, 1, 2, 3, 4), ReadPosition(1, 10)), partition_counts={TOPIC: 4})
        grown = planner.latest(known, None)
        assert grown.partition_counts == {TOPIC: CHANGED}
        assert [one.topic for one in planner.ranges(known, grown)] == of(0, 1, 2, 3, 4)
        # what was planned before is what a replay reads, whatever the number of partitions is now
        assert [one.topic for one in planner.ranges(start, end)] == of(1)
