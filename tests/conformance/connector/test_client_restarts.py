"""Our wire client and a broker that goes away and comes back under it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.model.positions.ids import EARLIEST_ID, MessageId
from spark_pulsar.wire.entries.entry_blocks import EntryBlock
from spark_pulsar.wire.entries.entry_bytes import parse_entry
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker
from tests.conformance.outliving import Halves, outlives_a_kill, outlives_a_stop


def _publish(client: PulsarClient, topic: str, values: list[bytes]) -> None:
    with client.publisher(topic) as publisher:
        for value in values:
            publisher.send(MessageMetadata(), value)


def _ids(blocks: Iterable[EntryBlock]) -> list[tuple[int, int]]:
    return [one for block in blocks for one in zip(block.ledger_ids, block.entry_ids, strict=True)]


def _keep(own_broker: Broker, topic: str) -> None:
    """A subscription holds the messages: Apache Pulsar may trim a closed ledger that nobody needs."""
    own_broker.client(operation_timeout_seconds=60).subscribe(topic, "keep").close()


@outlives_a_stop
def test_reading_goes_on_over_a_restart(own_broker: Broker) -> Halves:
    topic = own_broker.topic("restart")
    _keep(own_broker, topic)
    with PulsarClient(ClientConfig(own_broker.service_url, operation_timeout_ms=60_000)) as client:
        _publish(client, topic, [number.to_bytes(4, "big") * 25_000 for number in range(50)])
        end = client.end_positions([topic])[topic]
        with client.fetch(topic, EARLIEST_ID, end, max_queued_bytes=200_000) as fetch:
            first = fetch.next_block(30_000)
            assert first is not None
            ids = _ids([first])
            assert len(ids) < 50
            yield
            ids += _ids(fetch)
        assert ids == [(end.ledger_id, entry) for entry in range(50)]
        assert client.last_message_id(topic) == MessageId(end.ledger_id, 49)
        # What is written after the restart lies in another ledger: a gap in the ids, none in the data.
        _publish(client, topic, [b"50", b"51"])
        now = client.end_positions([topic])[topic]
        assert now.ledger_id > end.ledger_id
        with client.fetch(topic, MessageId(end.ledger_id, 49), now) as fetch:
            assert _ids(fetch) == [(end.ledger_id, 49), (now.ledger_id, 0), (now.ledger_id, 1)]
        with client.fetch(topic, MessageId(end.ledger_id, 49), MessageId(now.ledger_id, 0)) as fetch:
            assert _ids(fetch) == [(end.ledger_id, 49)]


def test_a_broker_that_stays_away_is_a_time_out(own_broker: Broker) -> None:
    topic = own_broker.topic("away")
    with PulsarClient(ClientConfig(own_broker.service_url)) as client:
        _publish(client, topic, [b"0"])
        end = client.end_positions([topic])[topic]
    with PulsarClient(ClientConfig(own_broker.service_url, operation_timeout_ms=1_000)) as client:
        own_broker.kill()
        try:
            with pytest.raises(OperationTimeout, match="cannot connect"):
                client.last_message_id(topic)
            with (
                client.fetch(topic, EARLIEST_ID, end) as fetch,
                pytest.raises(OperationTimeout, match="opening a reader"),
            ):
                next(iter(fetch))
        finally:
            own_broker.restart()


@outlives_a_stop
def test_a_cursor_moves_over_the_end_of_a_ledger(own_broker: Broker) -> Halves:
    topic = own_broker.topic("ledgers")
    with PulsarClient(ClientConfig(own_broker.service_url, operation_timeout_ms=60_000)) as client:
        _publish(client, topic, [b"0", b"1"])
        client.ensure_subscription([topic], "s", "earliest")
        yield  # the next entry begins another ledger
        _publish(client, topic, [b"after"])
        end = client.end_positions([topic])[topic]
        client.advance_cursors({topic: MessageId(end.ledger_id, 0)}, "s")
        consumer = own_broker.client(operation_timeout_seconds=60).subscribe(topic, "s")
        assert consumer.receive(120_000).data() == b"after"
        consumer.close()
        client.advance_cursors({topic: end}, "s")
        assert client.cursor_positions([topic], "s")[topic] == end


@outlives_a_kill
def test_publishing_goes_on_over_a_restart(own_broker: Broker) -> Halves:
    topic = own_broker.topic("restart")
    _keep(own_broker, topic)
    with PulsarClient(ClientConfig(own_broker.service_url, operation_timeout_ms=60_000)) as client:
        with client.publisher(topic, name="mine") as publisher:
            for number in range(200):
                publisher.send(MessageMetadata(), b"%d" % number)
                if number == 100:
                    yield
        end = client.end_positions([topic])[topic]
        with client.fetch(topic, EARLIEST_ID, end) as fetch:
            numbers = [
                int(bytes(parse_entry(block.buffer, start, stop).payload))
                for block in fetch
                for start, stop in zip(block.starts, block.ends, strict=True)
            ]
    # At least once: what had no receipt was sent again, in order, so only a stretch may be there twice.
    assert sorted(set(numbers)) == list(range(200))
    falls = [index for index in range(1, len(numbers)) if numbers[index] < numbers[index - 1]]
    assert len(falls) <= 1
