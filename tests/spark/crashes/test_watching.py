"""The reader of the kill runs notices what it is there for: on our broker, since it is the reader that is tested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import spark_pulsar
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.effectively_once.checked_sequence_ids import Place
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker
from tests.eventually import eventually
from tests.spark.crashes.watching import Watcher


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker of ours, whichever the suite runs on."""
    with spark_pulsar.broker_process() as process:
        yield Broker("ours", process.service_url, process.admin_url)


def test_rows_of_one_transaction_that_show_one_after_the_other_are_noticed(broker: Broker) -> None:
    # covers TXN-8
    topic = broker.topic(partitions=2)
    watcher = Watcher(broker.service_url, topic)
    watcher.start()

    def seen(rows: int) -> bool:
        assert watcher.rows == rows, watcher
        return True

    eventually(lambda: watcher.passes > 0)
    with PulsarClient(ClientConfig(broker.service_url)) as client:
        for number, partition in enumerate(client.partitions_of(topic)):
            with client.publisher(partition) as publisher:
                publisher.send(MessageMetadata(), b"row", sequence_id=Place(7, 1, 0).sequence_id)
            eventually(lambda: seen(number + 1))  # noqa: B023 it is called at once
            passes = watcher.passes
            eventually(lambda: watcher.passes > passes + 2)  # noqa: B023 it is called at once
    watcher.stop()
    with pytest.raises(AssertionError, match="seen in part"):
        watcher.check(2)
    with pytest.raises(AssertionError, match="saw 2 rows of 3"):
        watcher.check(3)
