"""Copies of topics between two brokers, entry by entry."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pulsar
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.copying.copier import CopiedPartition, Copier, positions_file
from spark_pulsar.client.copying.partition_copy import CopyRefused, PartitionRoute
from spark_pulsar.client.copying.position_map import PositionMap
from spark_pulsar.client.reading.positions import beginning
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.entry_blocks import head_of
from tests.brokers import Broker, topic_path
from tests.conformance.transactions.transacting import Transacting
from tests.move.conftest import Ways
from tests.move.cutting_proxy import CuttingProxy
from tests.raw import RawConnection, batch_payload

Opened = Callable[[str], PulsarClient]
LONG_AGO_MS = 1_600_000_000_000


def sent(raw: RawConnection, sequence_id: int, payload: bytes, **metadata: Any) -> None:
    """Publishes an entry of producer `p` and waits for its receipt; counts of batches and chunks go into the SEND."""
    fields: dict[str, Any] = {}
    if "num_messages_in_batch" in metadata:
        fields["num_messages"] = metadata["num_messages_in_batch"]
    if "num_chunks_from_msg" in metadata:
        fields["is_chunk"] = True
    raw.send_message(1, sequence_id, payload, metadata=metadata, **fields)
    receipt = raw.answer_to_send()
    assert receipt.type == "SEND_RECEIPT", receipt


def filled(source: Broker, topic: str, count: int, *, size: int = 100, batched: bool = False) -> None:
    """Publishes messages with growing numbers."""
    producer = source.client().create_producer(topic, batching_enabled=batched, block_if_queue_full=True)
    for number in range(count):
        producer.send_async(b"%08d" % number + bytes(size - 8), lambda *_: None)
    producer.flush()
    producer.close()


def stored(client: PulsarClient, topic: str) -> list[bytes]:
    """The entries of a topic, as they are stored."""
    end = client.end_positions([topic])[topic]
    with client.fetch(topic, beginning(-1), end) as fetch:
        return [
            block.buffer[head_of(block.buffer, start, stop)[0] : stop]
            for block in fetch
            for start, stop in zip(block.starts, block.ends, strict=True)
        ]


def copied(source: PulsarClient, target: PulsarClient, route: PartitionRoute, directory: Path) -> CopiedPartition:
    """Copies one partition that must be equal afterwards."""
    (result,) = Copier(source, target, directory, at_once=1).copy([route])
    if result.error is not None:
        raise result.error
    assert result.is_equal, result
    return result


# covers MOVE-1
def test_entries_of_every_kind_are_copied_as_they_are_stored(ways: Ways, opened: Opened, tmp_path: Path) -> None:
    topic, copy = ways.source.topic("kinds"), ways.target.topic("copy")
    raw = ways.source.raw()
    raw.produce(topic)
    sent(raw, 5, b"single", partition_key="k", ordering_key=b"o", event_time=7, publish_time=LONG_AGO_MS)
    sent(raw, 6, batch_payload([b"a", b"b"], 6), num_messages_in_batch=2, highest_sequence_id=7)
    sent(raw, 9, b"c" * 10, uuid="u", num_chunks_from_msg=2, total_chunk_msg_size=20, chunk_id=0)
    sent(raw, 9, b"d" * 10, uuid="u", num_chunks_from_msg=2, total_chunk_msg_size=20, chunk_id=1)
    keys = [{"key": "k", "value": b"v", "metadata": [{"key": "version", "value": "1"}]}]
    sent(raw, 3, b"sealed", encryption_keys=keys, encryption_algo="AES", encryption_param=b"0" * 12)
    sent(raw, 11, b"later", deliver_at_time=LONG_AGO_MS * 2, properties=[{"key": "ü", "value": "1"}])
    sent(raw, 12, b"", null_value=True, schema_version=b"\0" * 7 + b"\1", replicated_from="elsewhere")
    client = ways.source.client()
    zipped = client.create_producer(topic, compression_type=pulsar.CompressionType.ZSTD, batching_enabled=True)
    for number in range(20):
        zipped.send_async(b"%d" % number * 50, lambda *_: None)
    zipped.flush()
    source, target = opened(ways.source.service_url), opened(ways.target.service_url)
    result = copied(source, target, PartitionRoute(topic, copy), tmp_path)
    assert stored(target, copy) == stored(source, topic)
    assert result.comparison is not None
    assert result.comparison.messages == 28
    consumer = ways.target.client().subscribe(copy, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert [consumer.receive(10_000).data() for _ in range(4)] == [b"single", b"a", b"b", b"c" * 10 + b"d" * 10]


# covers MOVE-1
def test_versions_of_schemas_get_the_numbers_of_the_target(ways: Ways, opened: Opened, tmp_path: Path) -> None:
    topic, copy = ways.source.topic("versions"), ways.target.topic("copy")
    old, new = b"\0" * 7 + b"\1", b"\0" * 7 + b"\4"
    raw = ways.source.raw()
    raw.produce(topic)
    sent(raw, 0, b"first", schema_version=old)
    sent(raw, 1, b"without")
    sent(raw, 2, b"other", schema_version=b"\0" * 8)
    target = opened(ways.target.service_url)
    copied(opened(ways.source.service_url), target, PartitionRoute(topic, copy, {old: new}), tmp_path)
    reader = ways.target.raw()
    reader.subscribe(copy, permits=3)
    frames = reader.expect_messages(3)
    assert [(frame.metadata or {}).get("schema_version") for frame in frames] == [new.hex(), None, "00" * 8]
    assert {frame.checksum for frame in frames} == {"ok"}


# covers MOVE-1
def test_committed_messages_are_copied_without_their_transaction(ways: Ways, opened: Opened, tmp_path: Path) -> None:
    topic, copy = ways.source.topic("transactions"), ways.target.topic("copy")
    client = Transacting(ways.source)
    client.produce(topic, txn_enabled=True)
    committed, aborted, still_open = client.begin(topic), client.begin(topic), client.begin(topic)
    for transaction, payload in ((committed, b"committed"), (None, b"plain"), (aborted, b"aborted")):
        client.send(payload, transaction)
    client.commit(committed)
    client.abort(aborted)
    for transaction, payload in ((None, b"stable"), (still_open, b"open"), (None, b"behind")):
        client.send(payload, transaction)
    target = opened(ways.target.service_url)
    copied(opened(ways.source.service_url), target, PartitionRoute(topic, copy), tmp_path)
    reader = ways.target.raw()
    reader.subscribe(copy, permits=5)
    frames = reader.expect_messages(3)
    assert [frame.payload for frame in frames] == [b"committed", b"plain", b"stable"]
    assert all("txnid_most_bits" not in (frame.metadata or {}) for frame in frames)
    reader.expect_no_message()


@pytest.fixture
def proxied() -> Iterator[Callable[[str, list[int]], CuttingProxy]]:
    """Makes proxies, closed when the test ends."""
    proxies: list[CuttingProxy] = []

    def make(url: str, cuts: list[int]) -> CuttingProxy:
        proxies.append(CuttingProxy(url, cuts))
        return proxies[-1]

    yield make
    for proxy in proxies:
        proxy.close()


# covers MOVE-2
def test_connections_lost_at_any_byte_lose_and_repeat_nothing(
    ways: Ways, opened: Opened, proxied: Callable[[str, list[int]], CuttingProxy], tmp_path: Path
) -> None:
    topic, copy = ways.source.topic("cut"), ways.target.topic("copy")
    filled(ways.source, topic, 3_000)
    proxy = proxied(ways.target.service_url, [60_000, 90_001, 100, 3_333, 20_000, 40_000, 61_007])
    source, target = opened(ways.source.service_url), opened(proxy.url)
    copied(source, target, PartitionRoute(topic, copy), tmp_path)
    assert proxy.cuts >= 4
    assert stored(opened(ways.target.service_url), copy) == stored(source, topic)


# covers MOVE-2
def test_a_copy_that_is_killed_goes_on_where_the_target_ends(ways: Ways, opened: Opened, tmp_path: Path) -> None:
    topic, copy = ways.source.topic("killed"), ways.target.topic("copy")
    filled(ways.source, topic, 4_000)
    urls = ways.source.service_url, ways.target.service_url
    for lines in (1, 15):
        with process(*urls, topic, copy, tmp_path) as copying:
            assert copying.stdout is not None
            for _ in range(lines):
                assert copying.stdout.readline()
            copying.kill()
    source, target = opened(urls[0]), opened(urls[1])
    positions_file(tmp_path, topic).unlink()  # made anew from both sides (MOVE-3)
    copied(source, target, PartitionRoute(topic, copy), tmp_path)
    assert stored(target, copy) == stored(source, topic)


def process(source: str, target: str, topic: str, copy: str, directory: Path) -> Any:
    """A process that copies."""
    command = [sys.executable, "-m", "tests.move.copying_process", source, target, topic, copy, str(directory)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


# covers MOVE-2
@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_many_kills_and_cuts_lose_and_repeat_nothing(
    ways: Ways, opened: Opened, proxied: Callable[[str, list[int]], CuttingProxy], tmp_path: Path, seed: int
) -> None:
    topic, copy = ways.source.topic("killed"), ways.target.topic("copy")
    filled(ways.source, topic, 20_000)
    dice = Random(seed)
    source = ways.source.service_url
    proxy = proxied(ways.target.service_url, [dice.choice([100, 5_000, 200_000, 900_000]) for _ in range(60)])
    for _ in range(12):
        with process(source, proxy.url, topic, copy, tmp_path) as copying:
            assert copying.stdout is not None
            for _ in range(dice.randrange(60)):
                copying.stdout.readline()
            copying.kill()
        if dice.random() < 0.3:
            positions_file(tmp_path, topic).unlink(missing_ok=True)
    ours, theirs = opened(source), opened(ways.target.service_url)
    copied(ours, theirs, PartitionRoute(topic, copy), tmp_path)
    assert stored(theirs, copy) == stored(ours, topic)


# covers MOVE-2
def test_a_target_with_other_messages_is_refused(ways: Ways, opened: Opened, tmp_path: Path) -> None:
    topic, copy = ways.source.topic("refused"), ways.target.topic("copy")
    filled(ways.source, topic, 5)
    filled(ways.target, copy, 1, size=50)
    source, target = opened(ways.source.service_url), opened(ways.target.service_url)
    with pytest.raises(CopyRefused, match="which is not the copy of entry"):
        copied(source, target, PartitionRoute(topic, copy), tmp_path)
    assert len(stored(target, copy)) == 1


# covers MOVE-2, MOVE-4
def test_messages_of_another_producer_are_noticed(ways: Ways, opened: Opened, tmp_path: Path) -> None:
    topic, copy = ways.source.topic("disturbed"), ways.target.topic("copy")
    filled(ways.source, topic, 5)
    source, target = opened(ways.source.service_url), opened(ways.target.service_url)
    route = PartitionRoute(topic, copy)
    copied(source, target, route, tmp_path)
    filled(ways.source, topic, 5)
    filled(ways.target, copy, 1)
    with pytest.raises(CopyRefused):
        copied(source, target, route, tmp_path)


# covers MOVE-3
def test_positions_are_known_after_any_torn_end(ways: Ways, opened: Opened, tmp_path: Path) -> None:
    topic, copy = ways.source.topic("positions"), ways.target.topic("copy")
    source, target = opened(ways.source.service_url), opened(ways.target.service_url)
    route, file = PartitionRoute(topic, copy), positions_file(tmp_path, topic)
    ways.source.client().subscribe(topic, "holds")
    for _ in range(3):  # ledgers end where a topic is unloaded
        filled(ways.source, topic, 4)
        assert ways.source.rest("PUT", f"{topic_path(topic)}/unload")[0] == 204
    copied(source, target, route, tmp_path)
    ids = [ids_of(client, name) for client, name in ((source, topic), (target, copy))]
    whole = file.read_bytes()
    for size in (len(whole), len(whole) - 1, len(whole) // 2, 3, 0):
        file.write_bytes(whole[:size])
        copied(source, target, route, tmp_path)
        with PositionMap(file, topic, copy) as positions:
            assert [positions.target_of(position) for position in ids[0]] == ids[1]
            assert positions.entries == 12
            assert positions.last_target_until(Position(ids[0][-1].ledger_id + 1, 5)) == ids[1][-1]
            assert positions.last_target_until(Position(-1, -1)) is None


def ids_of(client: PulsarClient, topic: str) -> list[Position]:
    """The positions of the entries of a topic."""
    with client.fetch(topic, beginning(-1), client.end_positions([topic])[topic]) as fetch:
        return [
            Position(ledger, entry)
            for block in fetch
            for ledger, entry in zip(block.ledger_ids, block.entry_ids, strict=True)
        ]


# covers MOVE-4
def test_memory_stays_within_its_budget(ways: Ways, opened: Opened, tmp_path: Path) -> None:
    topic, copy = ways.source.topic("large"), ways.target.topic("copy")
    filled(ways.source, topic, 60, size=1 << 20)
    source, target = opened(ways.source.service_url), opened(ways.target.service_url)
    tracemalloc.start()
    try:
        Copier(source, target, tmp_path, memory_bytes=8 << 20, at_once=1).copy([PartitionRoute(topic, copy)])
        assert tracemalloc.get_traced_memory()[1] < 40 << 20  # with an entry in each place that it passes
    finally:
        tracemalloc.stop()
    assert len(ids_of(target, copy)) == 60


# covers MOVE-4
def test_many_partitions_are_copied_at_once_and_counted(ways: Ways, opened: Opened, tmp_path: Path) -> None:
    topics = [ways.source.topic("many") for _ in range(12)]
    for topic in topics:
        filled(ways.source, topic, 30, batched=True)
    source, target = opened(ways.source.service_url), opened(ways.target.service_url)
    missing = ways.source.topic("missing")
    assert ways.source.rest("PUT", topic_path(missing))[0] == 204
    counted: list[int] = []
    results = Copier(source, target, tmp_path).copy(
        [PartitionRoute(topic, ways.target.topic("copy")) for topic in [*topics, missing]],
        lambda entries, size_bytes: counted.append(entries),
    )
    assert all(result.is_equal for result in results), results
    counts = [result.comparison.messages for result in results if result.comparison is not None]
    assert counts == [30] * 12 + [0]
    assert sum(counted) == 2 * sum(result.comparison.entries for result in results if result.comparison is not None)


@pytest.fixture
def deduplicating(ways: Ways) -> str:
    """A namespace of the target that de-duplicates."""
    namespace = ways.target.namespace()
    assert ways.target.rest("POST", f"/admin/v2/namespaces/{namespace}/deduplication", True)[0] == 204
    return namespace


# covers MOVE-5, DED-12
def test_a_target_that_deduplicates_recognises_producers_of_the_source(
    ways: Ways, deduplicating: str, opened: Opened, tmp_path: Path
) -> None:
    topic, copy = ways.source.topic("sequences"), f"persistent://{deduplicating}/copy"
    raw = ways.source.raw()
    raw.produce(topic)
    for sequence_id in (5, 6, 6, 2):  # what came before the source de-duplicated is copied all the same
        sent(raw, sequence_id, b"%d" % sequence_id)
    sent(raw, 7, batch_payload([b"7", b"8"], 7), num_messages_in_batch=2, highest_sequence_id=8)
    sent(raw, 1, b"of another", producer_name="q")
    sent(raw, 4, b"c" * 10, uuid="u", num_chunks_from_msg=2, total_chunk_msg_size=20, chunk_id=0, producer_name="r")
    sent(raw, 4, b"d" * 10, uuid="u", num_chunks_from_msg=2, total_chunk_msg_size=20, chunk_id=1, producer_name="r")
    source, target = opened(ways.source.service_url), opened(ways.target.service_url)
    route = PartitionRoute(topic, copy, keeps_sequence_ids=True)
    copied(source, target, route, tmp_path)
    sent(raw, 8, b"repeated")
    sent(raw, 9, b"new")
    copied(source, target, route, tmp_path)
    assert stored(target, copy) == stored(source, topic)
    assert ways.target.rest("PUT", f"{topic_path(copy)}/unload")[0] == 204
    for name, last in (("p", 9), ("q", 1), ("r", 4)):
        with closing(ways.target.raw()) as other:
            assert other.produce(copy, producer_name=name)["last_sequence_id"] == last
