"""Offsets of a query against a broker that the test plays: what falls between two questions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.config import ClientConfig
from spark_pulsar.connector.errors import DataLossError
from spark_pulsar.connector.offset_planner import OffsetPlanner
from spark_pulsar.connector.offsets import ReadPosition, SourceOffset
from spark_pulsar.connector.options import parse_options
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.ids import MessageId
from spark_pulsar.wire.commands import partition_metadata, success
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.client.peer import Caller, Peer

KEPT, GONE = "persistent://public/default/kept", "persistent://public/default/gone"


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A broker that knows partitions of both topics, and then only one of them."""
    one = Peer()
    one.last = MessageId(1, 9)

    def subscribed(caller: Caller, command: BaseCommand, _: bytes) -> None:
        if command.subscribe.topic in (GONE, f"{KEPT}-partition-7"):
            caller.refuse(command, TopicNotFound("no such topic"))
        else:
            caller.send(success(command.subscribe.request_id))

    one.handlers[BaseCommand.SUBSCRIBE] = subscribed
    yield one
    one.close()


def test_a_topic_deleted_between_its_partitions_and_its_end(peer: Peer) -> None:
    base = {"service.url": peer.url, "topics": f"{KEPT},{GONE}"}
    start = SourceOffset({KEPT: ReadPosition(1, 5), GONE: ReadPosition(1, 7)})
    with PulsarClient(ClientConfig(peer.url)) as client:
        strict = OffsetPlanner(client, parse_options(base))
        with pytest.raises(DataLossError, match=f"{GONE} no longer exists.* read up to 1:7:0. Set failOnDataLoss"):
            strict.latest(start, None)
        with pytest.raises(TopicNotFound, match=f"topic {GONE} not found"):
            strict.latest(SourceOffset({KEPT: ReadPosition(1, 5)}), None)
        tolerant = OffsetPlanner(client, parse_options(base | {"failOnDataLoss": "false"}))
        assert tolerant.latest(start, None).positions == {KEPT: ReadPosition(1, 10)}


def test_a_partition_that_is_named_must_exist_whatever_others_there_are(peer: Peer) -> None:
    named = [f"{KEPT}-partition-{index}" for index in (0, 7)]
    peer.handlers[BaseCommand.PARTITIONED_METADATA] = lambda caller, command, _: caller.send(
        partition_metadata(command.partitionMetadata.request_id, 8 if command.partitionMetadata.topic == KEPT else 0)
    )
    start = SourceOffset({named[0]: ReadPosition(1, 5)})
    with PulsarClient(ClientConfig(peer.url)) as client:
        base = {"service.url": peer.url}
        both = OffsetPlanner(client, parse_options(base | {"topics": ",".join(named)}))
        with pytest.raises(TopicNotFound, match=f"topic {named[1]} not found"):
            both.latest(start, None)
        # One of a topic's own partitions may be on its way: partitions are being added.
        whole = OffsetPlanner(client, parse_options(base | {"topic": KEPT}))
        assert named[1] not in whole.latest(start, None).positions
