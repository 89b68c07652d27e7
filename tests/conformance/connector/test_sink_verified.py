"""Attempts of tasks whose rows are not those that were written, refused entries, and micro-batches planned anew."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.connector.effectively_once.attempt import TaskAttempt
from spark_pulsar.connector.effectively_once.checked_sequence_ids import place_of
from spark_pulsar.connector.effectively_once.micro_batch import check_micro_batch
from spark_pulsar.connector.effectively_once.outcomes import TaskOutcome
from spark_pulsar.connector.effectively_once.resuming import EARLIER_ROWS_OF_A_BATCH
from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import STREAM_WRITE
from spark_pulsar.connector.writing import task_writing as writing
from spark_pulsar.connector.writing.task_writing import publish
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker
from tests.conformance.connector.test_sink_once import Sink, deduplicating
from tests.damaging_proxy import DamagingProxy, Sent

__all__ = ["deduplicating"]
CLOSED = "public/closed"
"""A namespace whose topics an admin creates."""
_RUNS = itertools.count()


class Query:
    """A streaming query with one sink, as Spark's driver and tasks run it."""

    def __init__(self, sink: Sink, **options: str) -> None:
        self.sink = sink
        self.raw = sink.raw | sink.more | options
        self.writer = sink.topic.rpartition("/")[2]
        self.run = next(_RUNS)
        self.is_in_foreach_batch = False

    def restart(self) -> None:
        """Begins another run."""
        self.run = next(_RUNS)

    def task(
        self, batch_id: int, task: int, values: Sequence[int], ids: Sequence[int] | None = None, attempt: int = 0
    ) -> TaskOutcome:
        """Runs an attempt of a task."""
        options = parse_options(self.raw).for_write(STREAM_WRITE)
        one = TaskAttempt(
            self.writer,
            batch_id,
            task,
            has_sequence_ids=ids is not None,
            is_order_vouched=options.repeatable_row_order,
            is_of_query=True,
            is_in_foreach_batch=self.is_in_foreach_batch,
            run_id=str(self.run),
            attempt_number=attempt,
        )
        outcome = TaskOutcome(one)
        columns = {"value": [str(value) for value in values]} | ({} if ids is None else {"__sequenceId": list(ids)})
        batches = pa.table(columns).to_batches() if values else []
        with PulsarClient(self.sink.config) as client:
            publish(client, options, iter(batches), None, outcome)
        return outcome

    def batch(self, batch_id: int, tasks: Sequence[Sequence[int]], ids: Sequence[Sequence[int]] | None = None) -> None:
        """Runs a micro-batch of so many tasks, and has the driver check it."""
        outcomes = [self.task(batch_id, at, rows, None if ids is None else ids[at]) for at, rows in enumerate(tasks)]
        with PulsarClient(self.sink.config) as client:
            check_micro_batch(client, parse_options(self.raw).for_write(STREAM_WRITE), outcomes)


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are sent in several parts."""
    monkeypatch.setattr(writing, "GATHER_ROWS", 100)


def rows_of(count: int) -> Iterator[pa.RecordBatch]:
    """Rows `0`, `1`, … in record batches of 50."""
    yield from pa.table({"value": [str(number) for number in range(count)]}).to_batches(max_chunksize=50)


@pytest.mark.usefixtures("gathered")
def test_a_refused_entry_has_none_behind_it_that_is_stored(broker: Broker, deduplicating: str) -> None:
    # covers ONCE-9
    with closing(DamagingProxy(broker.service_url, lambda sent: sent.number == 9)) as proxy:
        sink = Sink(broker, deduplicating, partitions=2)
        sink.config = replace(sink.config, service_url=proxy.url)
        sink.write(TaskAttempt("copy", 0, 0), rows_of(500))
        assert proxy.damaged == 1, "sent again by the attempt itself"
        bad: set[int] = set()

        def always(sent: Sent) -> bool:
            if sent.number > 60 and not bad:
                bad.add(sent.sequence_id)
            return sent.sequence_id in bad

        proxy.damages = always
        with pytest.raises(OperationTimeout, match="hecksum"):
            sink.write(TaskAttempt("copy", 1, 0), rows_of(500), sendTimeoutMs="700")
        assert proxy.damaged > 2
        bad.add(-1)
        proxy.damages = lambda _: False
        sink.write(TaskAttempt("copy", 1, 0, attempt_number=1), rows_of(500))
        for rows, number in itertools.product(sink.stored(), (0, 1)):
            values = [value for value, sequence_id in rows if place_of(sequence_id).number == number]
            assert values == sorted(values)
        assert sink.values() == sorted([*range(500)] * 2)


@pytest.mark.usefixtures("gathered")
def test_rows_that_are_not_those_that_were_written_are_refused(broker: Broker, deduplicating: str) -> None:
    # covers ONCE-10, ONCE-7
    query = Query(Sink(broker, deduplicating, partitions=2))
    rows = [*range(300)]
    query.task(4, 1, rows)
    swapped = [1, 0, *rows[2:]]
    for values, what in (
        (swapped, "its first .* rows are others now, or in another order"),
        ([*rows[:-1], 999], "rows are others now"),
        (rows[:100], "has 147 rows that task 1 wrote when micro-batch 4 ran before, and the task has 49 for it now"),
        ([], "and the task has 0 for it now"),
    ):
        for _ in range(2):
            with pytest.raises(
                DeliveryGuaranteeError, match=f"{what}.*__sequenceId.*repeatableRowOrder.*new checkpoint"
            ):
                query.task(4, 1, values, attempt=1)
    assert query.task(4, 1, rows, attempt=1).has_resumed
    assert query.sink.values() == rows
    query.raw["repeatableRowOrder"] = "true"
    query.task(4, 1, [*swapped, 300], attempt=1)
    with pytest.raises(DeliveryGuaranteeError, match="and the task has"):
        query.task(4, 1, swapped[:100], attempt=1)
    assert query.sink.values() == [*rows, 300]
    query.task(5, 1, rows)
    with pytest.raises(
        DeliveryGuaranteeError, match="has rows of micro-batch 5 of this query, and this is micro-batch 4"
    ):
        query.task(4, 1, rows)


def test_a_micro_batch_that_was_planned_anew_is_noticed(broker: Broker, deduplicating: str) -> None:
    # covers ONCE-11, ONCE-12
    query = Query(Sink(broker, deduplicating, partitions=2))
    for batch_id in range(2):
        query.batch(batch_id, [[task * 10 + batch_id] for task in range(4)])
    query.restart()
    query.batch(1, [[task * 10 + 1] for task in range(4)])  # a replay
    query.restart()
    for _ in range(2):
        with pytest.raises(
            DeliveryGuaranteeError, match=r"micro-batch 1 was planned anew.*1 rows of micro-batch 1 .*task"
        ):
            query.batch(1, [[1]])
        query.restart()
    with pytest.raises(DeliveryGuaranteeError, match=r"micro-batch 0 was planned anew|has rows of micro-batch 1"):
        query.batch(0, [[]])
    query.restart()
    query.batch(2, [[100]])
    query.batch(3, [[200]])
    assert query.sink.values() == [0, 1, 10, 11, 20, 21, 30, 31, 100, 200]


def test_writes_of_one_name_to_several_topics_are_checked_apart(broker: Broker, deduplicating: str) -> None:
    # covers ONCE-12
    queries = [Query(Sink(broker, deduplicating)) for _ in range(2)]
    for query in queries:
        query.writer, query.is_in_foreach_batch = queries[0].writer, True
    for batch_id in (0, 0, 1, 1):
        for query in queries:
            query.restart()
            query.batch(batch_id, [[batch_id], [10 + batch_id]])
    for query in queries:
        assert query.sink.values() == [0, 1, 10, 11]
        with pytest.raises(DeliveryGuaranteeError, match="was planned anew"):
            query.batch(1, [[1]])


def test_totals_are_of_rows_and_topics_in_any_order(broker: Broker, deduplicating: str) -> None:
    # covers TXN-9
    one, other = (Query(Sink(broker, deduplicating, partitions=2)) for _ in range(2))
    outcomes = [one.task(0, 0, [1, 2, 3]), one.task(0, 1, [4, 5]), one.task(0, 2, [5, 3, 1, 4, 2])]
    in_another = other.task(0, 0, [1, 2, 3, 4, 5])
    most = 1 << 64
    assert sum(outcome.content for outcome in outcomes[:2]) % most == outcomes[2].content % most
    assert outcomes[2].rows == in_another.rows == 5
    assert outcomes[2].content % most != in_another.content % most


def test_names_of_producers_change_before_numbers_do_not_fit(broker: Broker, deduplicating: str) -> None:
    # covers ONCE-10
    query = Query(Sink(broker, deduplicating))
    for batch_id in (65535, 65535, 65536, 65536):
        query.batch(batch_id, [[batch_id]])
    ids = [sequence_id for rows in query.sink.stored() for _, sequence_id in rows]
    assert [place_of(sequence_id).number for sequence_id in ids] == [65535, 0]


def test_a_roster_that_cannot_be_kept_is_a_warning(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    # covers ONCE-12
    namespace = f"/admin/v2/namespaces/{CLOSED}"
    assert broker.rest("PUT", namespace, {})[0] in (204, 409)
    assert broker.rest("POST", f"{namespace}/deduplication", True)[0] == 204
    assert broker.rest("POST", f"{namespace}/autoTopicCreation", {"allowAutoTopicCreation": False})[0] == 204
    query = Query(Sink(broker, CLOSED, partitions=1))
    with caplog.at_level(logging.WARNING, "spark_pulsar"):
        query.batch(0, [[0], [1]])
    assert "are not noted in persistent://public/closed/__spark_pulsar_producers-" in caplog.text
    query.raw["transactionTopic"] = f"persistent://{CLOSED}/roster"
    with pytest.raises(TopicNotFound, match="roster"):
        query.task(1, 2, [2])
    assert query.sink.values() == [0, 1]


def test_rows_of_an_earlier_version_are_not_written_again(broker: Broker, deduplicating: str) -> None:
    # covers ONCE-11
    query = Query(Sink(broker, deduplicating))
    with PulsarClient(query.sink.config) as client:
        name = TaskAttempt(query.writer, 1, 0).named_producer(1)
        with client.publisher(query.sink.topic, name=name, deduplicated=True) as earlier:
            for batch_id in range(2):
                earlier.send(MessageMetadata(), b"7", sequence_id=batch_id * EARLIER_ROWS_OF_A_BATCH + 1)
    with pytest.raises(DeliveryGuaranteeError, match=r"an earlier version .* has written rows of micro-batch 1"):
        query.task(1, 0, [7])
    query.task(2, 0, [8])
    assert query.sink.values() == [7, 7, 8]


def test_named_ids_that_do_not_grow_over_micro_batches_are_noticed(
    broker: Broker, deduplicating: str, caplog: pytest.LogCaptureFixture
) -> None:
    # covers ONCE-13
    query = Query(Sink(broker, deduplicating))
    query.batch(0, [[0, 1, 2]], [[10, 20, 30]])
    assert query.task(0, 0, [0, 1, 2], [10, 20, 30]).skipped[0].rows == 3
    with pytest.raises(
        DeliveryGuaranteeError, match=r"2 rows .* __sequenceId from 15 to 25, at or below 30.*would be lost"
    ):
        query.task(1, 0, [3, 4, 5], [15, 25, 40])
    with pytest.raises(DeliveryGuaranteeError, match=r"1 rows .* from 15 to 15, at or below 30"):
        query.task(1, 0, [3], [15])
    with pytest.raises(DeliveryGuaranteeError, match=r"3 rows .* from 10 to 30, at or below 30"):
        query.batch(1, [[3, 4, 5]], [[10, 20, 30]])
    query.restart()
    with caplog.at_level(logging.WARNING, "spark_pulsar"):
        query.batch(0, [[0, 1, 2]], [[10, 20, 30]])
    assert "3 rows of micro-batch 0" in caplog.text
    assert "with __sequenceId 10 to 30, are left out as written before" in caplog.text
    query.batch(1, [[3, 4]], [[31, 40]])
    assert query.sink.values() == [0, 1, 2, 3, 4]
