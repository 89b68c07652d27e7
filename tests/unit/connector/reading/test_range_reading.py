"""A task against a broker that the test plays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.connector.source import PulsarReader, RangePartition
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.client.peer import Peer, message

TOPIC = "persistent://public/default/t"


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A broker whose topic has ten entries."""
    one = Peer()
    one.last = MessageId(1, 9)
    yield one
    one.close()


def test_an_entry_that_does_not_come_ends_the_task_and_names_the_option(peer: Peer) -> None:
    # covers READ-10
    peer.handlers[BaseCommand.FLOW] = lambda caller, command, _: caller.send(
        *[message(command.flow.consumer_id, MessageId(1, number)) for number in range(3)]
    )
    options = parse_options({"service.url": peer.url, "topic": TOPIC, "pollTimeoutMs": "300"}).for_read(BATCH_READ)
    work = RangePartition((TopicRange(TOPIC, EARLIEST, ReadPosition(1, 10)),))
    reading = PulsarReader(options, Projection(("value",))).read(work)
    assert next(reading).num_rows == 3
    with pytest.raises(OperationTimeout, match=r"300 ms .*next entry at .*at 1:3.*set by pollTimeoutMs"):
        next(reading)
