"""Attempts of a task that write effectively once, without Spark: what one leaves out, and what is refused."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.errors import OperationTimeout, SequenceIdForgotten
from spark_pulsar.connector.effectively_once.attempt import TaskAttempt
from spark_pulsar.connector.effectively_once.checked_sequence_ids import place_of
from spark_pulsar.connector.effectively_once.outcomes import TaskOutcome
from spark_pulsar.connector.errors import DeliveryGuaranteeError, OptionError, SchemaError
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ, STREAM_WRITE
from spark_pulsar.connector.planning.batch_read import plan_batch
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.connector.reading.range_reading import read_range
from spark_pulsar.connector.writing import task_writing as writing
from spark_pulsar.connector.writing.task_writing import publish
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker, topic_path
from tests.eventually import eventually

NAMESPACE = "public/once"


@pytest.fixture(scope="module")
def deduplicating(broker: Broker) -> str:
    """A namespace whose topics de-duplicate."""
    status, answer = broker.rest("PUT", f"/admin/v2/namespaces/{NAMESPACE}", {})
    assert status in (204, 409), (status, answer)
    status, answer = broker.rest("POST", f"/admin/v2/namespaces/{NAMESPACE}/deduplication", True)
    assert status == 204, (status, answer)
    return NAMESPACE


class Sink:
    """One topic, and the tasks that write to it."""

    def __init__(self, broker: Broker, namespace: str, partitions: int = 0, **options: str) -> None:
        self.topic = broker.topic("sink").replace("public/default", namespace)
        if partitions:
            status, answer = broker.rest("PUT", f"{topic_path(self.topic)}/partitions", partitions)
            assert status == 204, (status, answer)
        self.config = ClientConfig(broker.service_url)
        self.raw = {"service.url": broker.service_url, "topic": self.topic}
        self.more = {"deliveryGuarantee": "effectively-once", "batchingMaxMessages": "7", **options}

    def write(self, attempt: TaskAttempt | None, batches: Iterator[pa.RecordBatch], **options: str) -> int:
        """Writes as a task of a worker of its own does."""
        parsed = parse_options(self.raw | self.more | options).for_write(STREAM_WRITE)
        with PulsarClient(replace(self.config, operation_timeout_ms=parsed.operation_timeout_ms)) as client:
            return publish(client, parsed, batches, None, None if attempt is None else TaskOutcome(attempt))

    def stored(self) -> list[list[tuple[int, int]]]:
        """Value and sequence id of each message, by partition."""
        options = parse_options(self.raw).for_read(BATCH_READ)
        columns = Projection(("value", "__sequenceId"))
        found: dict[str, list[tuple[int, int]]] = {}
        with PulsarClient(self.config) as client:
            for work in plan_batch(client, options):
                rows = found.setdefault(work.topic, [])
                for batch in read_range(client, options, work, columns):
                    ids = batch.column("__sequenceId").to_pylist()
                    rows += zip(map(int, batch.column("value").to_pylist()), ids, strict=True)
        return [found[topic] for topic in sorted(found)]

    def values(self) -> list[int]:
        """Values of all messages, sorted."""
        return sorted(value for rows in self.stored() for value, _ in rows)


def rows_of(count: int, cut: int, lost_after: int | None = None, **columns: Any) -> Iterator[pa.RecordBatch]:
    """Rows `0`, `1`, … in record batches of `cut`; the task is lost after so many rows."""
    table = pa.table({"value": [str(number) for number in range(count)], **columns})
    for start in range(0, count, cut):
        if lost_after is not None and start >= lost_after:
            break
        yield table.slice(start, cut).combine_chunks().to_batches()[0]
    if lost_after is not None:
        raise RuntimeError("lost")


def named(writer: str, batch_id: int) -> TaskAttempt:
    """An attempt of a query's first task, whose rows name their ids."""
    return TaskAttempt(writer, batch_id, 0, has_sequence_ids=True, is_of_query=True)


def last_sequence_id(client: PulsarClient, topic: str, name: str) -> int:
    with client.publisher(topic, name=name, deduplicated=True) as publisher:
        return publisher.last_sequence_id


@pytest.mark.parametrize("has_keys", [True, False])
def test_an_attempt_leaves_out_what_another_one_has_written(
    broker: Broker, deduplicating: str, has_keys: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # covers ONCE-1, ONCE-3, DED-13
    sink = Sink(broker, deduplicating, partitions=3)
    monkeypatch.setattr(writing, "GATHER_ROWS", 40)
    keys = {"__key": [f"k{number % 11}" for number in range(300)]} if has_keys else {}
    for batch_id in (0, 1):
        attempt = TaskAttempt("copy", batch_id, 2)
        for lost_after, cut in ((60, 20), (170, 17), (300, 33)):
            with pytest.raises(RuntimeError, match="lost"):
                sink.write(attempt, rows_of(300, cut, lost_after, **keys))
        assert sink.write(attempt, rows_of(300, 50, **keys)) == 300
        assert sink.write(attempt, rows_of(300, 300, **keys)) == 300
        assert sink.values() == sorted([*range(300)] * (batch_id + 1))
    for rows in sink.stored():
        places = [place_of(sequence_id) for _, sequence_id in rows]
        for batch_id in (0, 1):
            own = [at for at, place in enumerate(places) if place.number == batch_id]
            values = [rows[at][0] for at in own]
            assert values == sorted(values)
            assert [places[at].rows for at in own] == [*range(1, len(own) + 1)]


def test_tasks_micro_batches_and_sinks_have_names_of_their_own(broker: Broker, deduplicating: str) -> None:
    # covers ONCE-1
    sink = Sink(broker, deduplicating)
    attempts = [TaskAttempt(name, batch_id, task) for batch_id in (0, 7) for name in ("a", "b") for task in (0, 1)]
    for attempt in attempts:
        for _ in range(2):
            sink.write(attempt, rows_of(10, 10))
    assert sink.values() == sorted([*range(10)] * len(attempts))


def test_a_topic_that_does_not_deduplicate_is_refused(broker: Broker) -> None:
    # covers ONCE-2
    sink = Sink(broker, "public/default", partitions=2)
    with pytest.raises(DeliveryGuaranteeError, match=r"does not de-duplicate.*set-deduplication --enable public/def"):
        sink.write(TaskAttempt("copy", 0, 0), rows_of(100, 10))
    assert len(sink.values()) == 1
    forgetful = sink.topic.replace("persistent:", "non-persistent:")
    with pytest.raises(OptionError, match="cannot be kept on non-persistent"):
        sink.write(TaskAttempt("copy", 0, 0), rows_of(10, 10), topic=forgetful)
    del sink.raw["topic"]
    with pytest.raises(DeliveryGuaranteeError, match="non-persistent, and keeps nothing"):
        sink.write(TaskAttempt("copy", 0, 0), rows_of(10, 10, __topic=[forgetful] * 10))


def test_deduplication_that_is_switched_off_is_noticed(broker: Broker) -> None:
    # covers ONCE-2
    namespace = "public/switched"
    policy = f"/admin/v2/namespaces/{namespace}/deduplication"
    assert broker.rest("PUT", f"/admin/v2/namespaces/{namespace}", {})[0] in (204, 409)
    assert broker.rest("POST", policy, True)[0] == 204
    sink = Sink(broker, namespace)
    sink.write(TaskAttempt("copy", 0, 0), rows_of(10, 10))
    with PulsarClient(sink.config) as client:
        publisher = client.publisher(sink.topic, name="other", deduplicated=True)
        publisher.send(MessageMetadata(), b"10")
        publisher.attach_again()
        assert broker.rest("POST", policy, False)[0] == 204
        eventually(lambda: last_sequence_id(client, sink.topic, TaskAttempt("copy", 0, 0).producer_name(1)) < 0)
        with pytest.raises(SequenceIdForgotten, match=r"knows no sequence id of producer other, .* up to 0"):
            publisher.attach_again()
    with pytest.raises(DeliveryGuaranteeError, match="does not de-duplicate"):
        sink.write(TaskAttempt("copy", 1, 0), rows_of(10, 10))


def test_an_earlier_attempt_that_still_writes_is_waited_for(broker: Broker, deduplicating: str) -> None:
    # covers ONCE-4
    sink = Sink(broker, deduplicating)
    attempt = TaskAttempt("copy", 3, 1)
    begun, go_on = threading.Event(), threading.Event()

    def slow_rows() -> Iterator[pa.RecordBatch]:
        [half, rest] = rows_of(2_000, 1_000)
        yield half
        yield half.slice(0, 0)
        begun.set()
        assert go_on.wait(60)
        yield rest

    zombie = threading.Thread(target=sink.write, args=(attempt, slow_rows()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "GATHER_ROWS", 1_000)
        zombie.start()
        try:
            assert begun.wait(60)
            with pytest.raises(OperationTimeout, match=r"an earlier attempt of this task is .*operationTimeoutMs"):
                sink.write(attempt, rows_of(2_000, 2_000), operationTimeoutMs="1500")  # and of every other operation
            second = threading.Thread(target=sink.write, args=(attempt, rows_of(2_000, 300)))
            second.start()
        finally:
            go_on.set()
            zombie.join(60)
        second.join(60)
    assert sink.values() == [*range(2_000)]


def test_sequence_ids_that_rows_name_are_the_messages(broker: Broker, deduplicating: str) -> None:
    # covers ONCE-5
    sink = Sink(broker, deduplicating, partitions=2)
    ids = [3 * number + number % 2 for number in range(200)]
    columns = {"__sequenceId": pa.array(ids), "__key": [f"k{number % 5}" for number in range(200)]}
    for attempt in (named("copy", 0), named("copy", 1)):
        with pytest.raises(RuntimeError, match="lost"):
            sink.write(attempt, rows_of(200, 30, 90, **columns))
    sink.write(named("copy", 5), rows_of(200, 200, **columns))
    assert sink.values() == [*range(200)]
    assert all(sequence_id == ids[value] for rows in sink.stored() for value, sequence_id in rows)
    with pytest.raises(SchemaError, match="__sequenceId is 597 after 597"):
        sink.write(named("double", 0), rows_of(2, 1, __sequenceId=pa.array([597, 597]), __key=["k", "k"]))
    shuffled = Sink(broker, deduplicating)
    for seed in (1, 2):
        order = random.Random(seed).sample(range(200), 200)
        columns = {"value": [str(number) for number in order], "__sequenceId": [ids[number] for number in order]}
        shuffled.write(named("copy", 0), iter(pa.table(columns).to_batches(max_chunksize=30)))
    assert shuffled.stored() == [[(number, ids[number]) for number in range(200)]]
    plain = Sink(broker, "public/default", deliveryGuarantee="at-least-once")
    plain.write(None, rows_of(200, 60, __sequenceId=pa.array(ids)))
    assert plain.stored() == [[(number, ids[number]) for number in range(200)]]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 3, 3], r"__sequenceId is 3 after 3 on .*sink.*sortWithinPartitions"),
        ([5, 4, 6], "__sequenceId is 4 after 5"),
        ([1, None, 2], "a row has no __sequenceId"),
        ([-1, 0, 1], "__sequenceId is -1: it is from 0 to"),
        ([0, 1, 2**63 - 1], "__sequenceId is 9223372036854775807"),
    ],
)
def test_sequence_ids_that_do_not_grow_are_refused(broker: Broker, ids: list[int | None], message: str) -> None:
    # covers ONCE-5
    sink = Sink(broker, "public/default", deliveryGuarantee="at-least-once")
    with pytest.raises(SchemaError, match=message):
        sink.write(None, rows_of(3, 3, __sequenceId=pa.array(ids, pa.int64())))
