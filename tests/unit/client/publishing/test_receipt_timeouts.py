"""Receipt time-outs of a publisher, by a clock that the test puts on."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from spark_pulsar.client import deadlines
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.client.publishing import publisher as publishing
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata
from tests.eventually import eventually
from tests.unit.client.peer import Peer

MakeClient = Callable[..., PulsarClient]
TOPIC = "persistent://public/default/t"


class Later:
    """The publisher's clock, which the test puts on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_ms = 0
        for module in (publishing, deadlines):
            monkeypatch.setattr(module, "monotonic_ms", lambda: monotonic_ms() + self.by_ms)


def test_waiting_for_a_receipt_does_not_begin_again_with_each_producer(
    peer: Peer, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Later(monkeypatch)
    client = client_of(peer.url, connect_timeout_ms=2_000)
    publisher = client.publisher(TOPIC, receipt_timeout_ms=60_000)
    publisher.send(MessageMetadata(), b"value")
    peer.wait_for(BaseCommand.SEND)
    later.by_ms = 59_500  # in which the broker was silent
    peer.callers[-1].send(commands.close_producer(peer.of(BaseCommand.PRODUCER)[0].producer.producer_id))
    begun = time.monotonic()
    with pytest.raises(OperationTimeout, match="after 60000 ms waiting for the receipt of sequence id 0"):
        publisher.flush()
    assert time.monotonic() - begun < 30
    assert [command.send.sequence_id for command in peer.of(BaseCommand.SEND)] == [
        0,
        0,
    ]  # there was time for another attempt
    publisher.abort()


def test_nobody_waits_for_a_receipt_while_nothing_is_asked_of_the_publisher(
    peer: Peer, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Later(monkeypatch)
    publisher = client_of(peer.url, connect_timeout_ms=1_000).publisher(TOPIC, receipt_timeout_ms=20_000)
    publisher.send(MessageMetadata(), b"value")
    (sent,) = peer.wait_for(BaseCommand.SEND)
    peer.callers[-1].send(commands.close_producer(sent.send.producer_id))
    eventually(lambda: publisher._broken is not None)
    later.by_ms = 90_000  # for its rows are slow to make
    with pytest.raises(OperationTimeout, match="after 1500 ms waiting"):  # and not those 20 s over already
        publisher.flush(timeout_ms=1_500)
    assert [command.send.sequence_id for command in peer.of(BaseCommand.SEND)] == [0, 0]
    publisher.abort()
