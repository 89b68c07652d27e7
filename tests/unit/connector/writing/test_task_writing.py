"""Writing in a task, against a peer that says how much it takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.errors import NotSupportedByClient, OperationTimeout
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_WRITE
from spark_pulsar.connector.writing.task_writing import publish
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.entry_bytes import Checksum, parse_entry
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests import entry_commands
from tests.conformance.connector.key_pairs import rsa_pair
from tests.unit.client.peer import Caller, Peer

LIMIT_BYTES = 10_000


def _publish(peer: Peer, *sizes: int, **settings: str) -> list[int]:
    """Write rows of these sizes; how many messages each entry had."""
    peer.answer(BaseCommand.CONNECT, lambda asked: commands.connected(asked.protocol_version, "peer", LIMIT_BYTES))
    peer.answer(
        BaseCommand.SEND,
        lambda asked: entry_commands.send_receipt(asked.producer_id, asked.sequence_id, Position(1, asked.sequence_id)),
    )
    options = parse_options({"service.url": peer.url, "topic": "t", **settings}).for_write(BATCH_WRITE)
    rows = pa.RecordBatch.from_pydict({"value": [bytes(size) for size in sizes]})
    with PulsarClient(ClientConfig(peer.url)) as client:
        assert publish(client, options, iter([rows])) == len(sizes)
    return [command.send.num_messages for command in peer.of(BaseCommand.SEND)]


def test_batches_stay_below_what_the_broker_takes(peer: Peer) -> None:
    assert _publish(peer, *[1_000] * 50) == [8] * 6 + [2]


def test_a_broker_that_comes_back_with_a_lower_limit(peer: Peer, client: PulsarClient) -> None:
    # covers SINK-11
    limits = [100_000]
    peer.answer(BaseCommand.CONNECT, lambda asked: commands.connected(asked.protocol_version, "peer", limits[-1]))
    stored: list[int] = []

    def receive(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if len(payload) > LIMIT_BYTES:
            limits.append(LIMIT_BYTES)
            caller.close()
            return
        stored.append(command.send.num_messages)
        position = Position(1, len(stored))
        caller.send(entry_commands.send_receipt(command.send.producer_id, command.send.sequence_id, position))

    peer.handlers[BaseCommand.SEND] = receive
    options = parse_options({"service.url": peer.url, "topic": "t"}).for_write(BATCH_WRITE)
    rows = pa.RecordBatch.from_pydict({"value": [bytes(1_000)] * 50})
    assert publish(client, options, iter([rows])) == 50
    assert sum(stored) == 50


def test_a_receipt_that_never_comes_is_an_error_in_time(peer: Peer) -> None:
    options = parse_options({"service.url": peer.url, "topic": "t", "sendTimeoutMs": "150"}).for_write(BATCH_WRITE)
    rows = pa.RecordBatch.from_pydict({"value": [b"x"]})
    with PulsarClient(ClientConfig(peer.url)) as client, pytest.raises(OperationTimeout, match="after 150 ms waiting"):
        publish(client, options, iter([rows]))


def test_encryption_needs_a_library(peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(rsa_pair(tmp_path).public)
    for name in list(sys.modules):
        if name.split(".")[0] == "cryptography" or name.startswith("spark_pulsar.client.encryption."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(NotSupportedByClient, match=r"library cryptography.*pip install 'spark-pulsar\[encryption\]'"):
        _publish(peer, 10, encryptionKeys="a", encryptionPublicKeys=place)


def test_chunks_that_hold_nothing_are_refused(peer: Peer) -> None:
    # covers SINK-7
    with pytest.raises(NotAllowed, match=r"metadata of a message take .* \(chunkMaxMessageSize sets"):
        _publish(peer, 20_000, chunkingEnabled="true", chunkMaxMessageSize="10")


def _options_of_small_entries(peer: Peer, **settings: str) -> Options:
    """Options with which two rows are an entry, and so all entries go in runs."""
    given = {"service.url": peer.url, "topic": "t", "batchingMaxMessages": "2", **settings}
    return parse_options(given).for_write(BATCH_WRITE)


def _receipt(command: BaseCommand) -> BaseCommand:
    sequence_id = command.send.sequence_id
    return entry_commands.send_receipt(command.send.producer_id, sequence_id, Position(1, sequence_id))


def test_small_entries_come_again_in_order_after_a_lost_connection(peer: Peer, client: PulsarClient) -> None:
    # covers SINK-3, SINK-18
    stored: dict[int, list[tuple[int, bytes]]] = {}

    def receive(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        entries = stored.setdefault(caller.number, [])
        entry = parse_entry(payload)
        assert entry.checksum is Checksum.OK
        assert entry.metadata.sequence_id == command.send.sequence_id
        entries.append((command.send.sequence_id, bytes(entry.payload)[-1:]))
        if len(stored) == 1 and len(entries) == 300:
            caller.close()
        elif len(stored) > 1 or len(entries) < 200:
            caller.send(_receipt(command))

    peer.handlers[BaseCommand.SEND] = receive
    rows = pa.RecordBatch.from_pydict({"value": [bytes([i % 251]) for i in range(2_000)]})
    assert publish(client, _options_of_small_entries(peer), iter([rows])) == 2_000
    first, again = stored.values()
    assert [sequence_id for sequence_id, _ in first] == list(range(0, 2 * len(first), 2))
    assert [sequence_id for sequence_id, _ in again] == list(range(again[0][0], 2_000, 2))
    assert again[0][0] <= 400
    assert all(value == bytes([(sequence_id + 1) % 251]) for sequence_id, value in [*first, *again])


def test_no_more_entries_are_without_receipt_than_may_be(peer: Peer, client: PulsarClient) -> None:
    # covers SINK-16
    most, waiting, most_waiting = 10, list[BaseCommand](), 0

    def receive(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        nonlocal most_waiting
        waiting.append(command)
        most_waiting = max(most_waiting, len(waiting))
        if len(waiting) >= most:
            caller.send(*map(_receipt, waiting))
            waiting.clear()

    peer.handlers[BaseCommand.SEND] = receive
    options = _options_of_small_entries(peer, **{"pulsar.producer.maxPendingMessages": str(2 * most)})
    rows = pa.RecordBatch.from_pydict({"value": [b"x"] * 400})
    assert publish(client, options, iter([rows])) == 400
    assert most_waiting == most
    assert [command.send.sequence_id for command in peer.of(BaseCommand.SEND)] == list(range(0, 400, 2))
