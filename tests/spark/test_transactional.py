"""`deliveryGuarantee` transactional: micro-batches and batch jobs that appear all at once, or not at all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.effectively_once.attempt import TaskAttempt
from spark_pulsar.connector.effectively_once.outcomes import TaskOutcome
from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_WRITE
from spark_pulsar.connector.transactions.commit_log import CommitLog, commit_written, is_committed, read_records
from spark_pulsar.connector.transactions.results import TaskResult
from spark_pulsar.connector.writing.task_writing import publish
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker, topic_path
from tests.spark import once
from tests.spark.flows import BATCHED, Flows, texts, values
from tests.spark.once import counted, in_foreach_batch, lose_last, uncommit

NAMESPACE = "public/transactional"
TRANSACTIONAL = {"deliveryGuarantee": "transactional"}


@pytest.fixture(autouse=True)
def _namespace(broker: Broker) -> None:
    once.make_namespace(broker, NAMESPACE)


def new_topic(flows: Flows, name: str = "sink", partitions: int = 0) -> str:
    """A topic that de-duplicates."""
    return once.new_topic(flows, NAMESPACE, name, partitions)


def begin(flows: Flows, frame: DataFrame, checkpoint: str, topic: str | None = None, **options: Any) -> Any:
    """Starts to write all that there is as a stream."""
    return once.begin(flows, frame, checkpoint, topic, TRANSACTIONAL | options)


def copy(flows: Flows, frame: DataFrame, checkpoint: str, topic: str | None = None, **options: Any) -> None:
    """Writes all that there is as a stream."""
    once.write_all(flows, frame, checkpoint, topic, TRANSACTIONAL | options)


def rows_of(payloads: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows as a task gets them."""
    yield pa.RecordBatch.from_pydict({"value": list(payloads)})


def new_writer() -> str:
    """The name of a query that nobody used before."""
    return f"copy-{os.urandom(4).hex()}"


def attempt_at(flows: Flows, client: PulsarClient, batch_id: int, writer: str) -> tuple[CommitLog, Any]:
    """The log for an attempt of the first task of a micro-batch, in a new transaction; the attempt."""
    attempt = TaskAttempt(writer, batch_id, 0, client.open_transaction(0, 60_000), is_of_query=True)
    return CommitLog(client, options_of(flows, f"persistent://{NAMESPACE}/any"), attempt), attempt


def options_of(flows: Flows, topic: str, **more: str) -> Options:
    """Options of a batch write."""
    given = {"service.url": flows.broker.service_url, "topic": topic, "deliveryGuarantee": "transactional"}
    return parse_options(given | more).for_write(BATCH_WRITE)


@pytest.mark.versions
def test_micro_batches_are_copied(flows: Flows) -> None:
    # covers TXN-1
    source, topic, checkpoint = new_topic(flows, "source", 2), new_topic(flows, "sink", 3), flows.checkpoint()
    flows.send(source, texts(95), **BATCHED)
    frame = flows.stream(source, maxMessagesPerTrigger=40).select("value")
    copy(flows, frame, checkpoint, topic)
    assert counted(flows, topic) == Counter(texts(95))
    flows.send(source, texts(10, first=95))
    copy(flows, frame, checkpoint, topic)
    assert counted(flows, topic) == Counter(texts(105))


def test_a_micro_batch_that_was_committed_is_not_committed_again(flows: Flows) -> None:
    # covers TXN-2
    source, topic, checkpoint = new_topic(flows, "source", 2), new_topic(flows, "sink", 2), flows.checkpoint()
    flows.send(source, texts(60), **BATCHED)
    frame = flows.stream(source, maxMessagesPerTrigger=40, smallBatchMaxMessages=0).select("value")
    copy(flows, frame, checkpoint, topic)
    assert uncommit(checkpoint) == 1
    flows.send(source, texts(10, first=60))
    copy(flows, frame, checkpoint, topic)
    assert counted(flows, topic) == Counter(texts(70))


def test_a_committed_micro_batch_with_other_rows_is_an_error(flows: Flows) -> None:
    # covers TXN-9
    source, topic, checkpoint = new_topic(flows, "source"), new_topic(flows), flows.checkpoint()
    flows.send(source, texts(40), **BATCHED)
    copy(flows, flows.stream(source, maxMessagesPerTrigger=20).select("value"), checkpoint, topic)
    assert lose_last(checkpoint) == 1
    flows.send(source, texts(30, first=40), **BATCHED)
    for _ in range(2):
        with pytest.raises(
            StreamingQueryException, match=r"micro-batch 1 is committed with 20 rows, and has 50 rows now"
        ):
            copy(flows, flows.stream(source).select("value"), checkpoint, topic)
    assert counted(flows, topic) == Counter(texts(40))


def test_a_micro_batch_that_fails_shows_nothing_on_any_topic(flows: Flows) -> None:
    # covers TXN-1, TXN-3
    source, checkpoint = new_topic(flows, "source", 2), flows.checkpoint()
    topics = [new_topic(flows, "left", 1), new_topic(flows, "right", 2)]
    flows.send(source, texts(60))
    routed = F.expr(f"if(crc32(value) % 2 = 0, '{topics[0]}', '{topics[1]}') AS __topic")
    rows = flows.stream(source, smallBatchMaxMessages=0).select("value", routed)
    bad = rows.where(F.expr("if(string(value) = 'm59', raise_error('a bad row'), true)"))
    with pytest.raises(StreamingQueryException, match="a bad row"):
        copy(flows, bad, checkpoint, batchingMaxMessages=5)
    for topic in topics:
        for partition in flows.wire().partitions_of(topic):
            assert flows.wire().last_message_id(partition) is None
    copy(flows, rows, checkpoint)
    assert sum((counted(flows, topic) for topic in topics), Counter()) == Counter(texts(60))
    assert all(counted(flows, topic) for topic in topics)


def test_a_task_that_no_other_attempt_can_go_on_after_aborts(flows: Flows) -> None:
    # covers TXN-3
    source, topic = new_topic(flows, "source"), new_topic(flows)
    flows.send(source, texts(20))
    frame = flows.stream(source, smallBatchMaxMessages=0)
    lost = frame.selectExpr("value", "if(string(value) = 'm19', 7, 0) AS __partition")
    with pytest.raises(StreamingQueryException, match="__partition is 7"):
        copy(flows, lost, flows.checkpoint(), topic)
    flows.send(topic, ["behind it"])
    assert values(flows.batch(topic).collect()) == ["behind it"]


def test_a_transaction_that_a_dead_driver_left_is_aborted_when_the_query_starts_again(flows: Flows) -> None:
    # covers TXN-3
    topic, client = new_topic(flows), flows.wire()
    options = options_of(flows, topic, transactionTopic=new_topic(flows, "log"))
    dead = TaskAttempt("copy", 7, 0, client.open_transaction(0, 600_000))
    assert CommitLog(client, options, dead).claim()
    publish(client, options, rows_of(texts(10)), outcome=TaskOutcome(dead))
    flows.send(topic, ["behind it"])
    assert client.last_message_id(topic) is None
    again = TaskAttempt("copy", 7, 0, client.open_transaction(0, 600_000))
    log = CommitLog(client, options, again)
    assert log.claim()
    assert values(flows.batch(topic).collect()) == ["behind it"]
    publish(client, options, rows_of(texts(10)), outcome=TaskOutcome(again))
    with pytest.raises(DeliveryGuaranteeError, match=r"has ended before it was committed.*transactionTimeoutMs"):
        commit_written(client, options, [TaskResult(dead.transaction, log.place)])
    commit_written(client, options, [TaskResult(again.transaction, log.place)])
    assert values(flows.batch(topic).collect()) == ["behind it", *texts(10)]


def result_of(log: CommitLog, attempt: Any, rows: int, content: int = 7, *, was_committed: bool = False) -> TaskResult:
    """What the first task of a micro-batch, the only one that has rows, reports."""
    outcome = TaskOutcome(attempt, rows, content)
    return TaskResult(attempt.transaction, log.place, was_committed, log.history, outcome)


def test_of_runs_of_one_micro_batch_one_commits(flows: Flows) -> None:
    # covers TXN-2
    client, writer, options = flows.wire(), new_writer(), options_of(flows, "any")
    log, first = attempt_at(flows, client, 3, writer)
    assert log.claim()
    assert log.claim(), "an attempt of the task that comes later, in the same transaction"
    commit_written(client, options, [result_of(log, first, 400)])
    assert is_committed(client, options, log.place, first.transaction)
    commit_written(client, options, [result_of(log, first, 400)])
    late, second = attempt_at(flows, client, 3, writer)
    assert not late.claim()
    commit_written(client, options, [result_of(late, second, 400, was_committed=True)])
    following, third = attempt_at(flows, client, 4, writer)
    assert following.claim()
    client.end_transaction(third.transaction, commit=False)
    last, _ = attempt_at(flows, client, 4, writer)
    assert last.claim()


def test_a_committed_micro_batch_that_was_planned_anew_is_noticed(flows: Flows) -> None:
    # covers TXN-9
    client, writer, options = flows.wire(), new_writer(), options_of(flows, "any")
    vouched = options_of(flows, "any", repeatableRowOrder="true")
    for batch_id in range(3):
        log, attempt = attempt_at(flows, client, batch_id, writer)
        assert log.claim()
        commit_written(client, options, [result_of(log, attempt, 400 + batch_id)])
    again, attempt = attempt_at(flows, client, 1, writer)
    assert not again.claim()
    commit_written(client, options, [result_of(again, attempt, 401, was_committed=True)])
    commit_written(client, vouched, [result_of(again, attempt, 401, 8, was_committed=True)])
    for chosen, rows, content, what in (
        (options, 600, 7, "micro-batch 1 is committed with 401 rows, and has 600 rows now: it was planned anew"),
        (vouched, 600, 7, "has 600 rows now"),
        (options, 401, 8, "is committed with 401 rows, and has other rows now"),
    ):
        with pytest.raises(DeliveryGuaranteeError, match=what):
            commit_written(client, chosen, [result_of(again, attempt, rows, content, was_committed=True)])
    unknown = result_of(again, attempt, 401, was_committed=True)._replace(history=())
    with pytest.raises(DeliveryGuaranteeError, match="its totals are not known"):
        commit_written(client, options, [unknown])
    commit_written(client, vouched, [unknown])


def test_the_log_does_not_grow(flows: Flows) -> None:
    # covers TXN-2
    client, writer = flows.wire(), new_writer()
    for batch_id in range(40):
        log, attempt = attempt_at(flows, client, batch_id, writer)
        assert log.claim()
        client.end_transaction(attempt.transaction, commit=True)
    start = client.cursor_positions([log.place.partition], writer, "earliest")[log.place.partition]
    assert len(read_records(client, log.place.partition, start)) < 70
    again, _ = attempt_at(flows, client, 39, writer)
    assert not again.claim()


def test_a_log_whose_last_commit_is_gone_is_refused(flows: Flows) -> None:
    # covers TXN-2
    client, writer = flows.wire(), new_writer()
    log, attempt = attempt_at(flows, client, 0, writer)
    assert log.claim()
    client.end_transaction(attempt.transaction, commit=True)
    assert flows.broker.rest("POST", f"{topic_path(log.place.partition)}/subscription/{writer}/skip_all")[0] == 204
    late, _ = attempt_at(flows, client, 0, writer)
    with pytest.raises(DeliveryGuaranteeError, match=f"the last commit of {writer} was removed"):
        late.claim()


def test_a_message_to_a_transaction_that_has_ended_does_not_block_the_log(flows: Flows) -> None:
    # covers TXN-3
    client, writer = flows.wire(), new_writer()
    log, attempt = attempt_at(flows, client, 0, writer)
    assert log.claim()
    client.end_transaction(attempt.transaction, commit=False)
    # A broker may refuse it.
    with suppress(PulsarError), client.publisher(log.place.partition, transaction=attempt.transaction) as zombie:
        zombie.send(MessageMetadata(), b"too late")
    again, _ = attempt_at(flows, client, 0, writer)
    assert again.claim()


def test_an_attempt_goes_on_in_the_transaction_of_the_one_before(flows: Flows) -> None:
    # covers TXN-4
    topic, client = new_topic(flows, partitions=2), flows.wire()
    options = options_of(flows, topic, batchingMaxMessages="100")
    attempt = TaskAttempt("copy", 0, 1, client.open_transaction(0, 60_000))

    def breaking() -> Iterator[pa.RecordBatch]:
        yield from rows_of(texts(25_000))
        raise RuntimeError("the worker is lost")

    with pytest.raises(RuntimeError, match="the worker is lost"):
        publish(client, options, breaking(), outcome=TaskOutcome(attempt))
    retried = replace(attempt, attempt_number=1)
    for payloads, what in (
        (texts(30_000)[::-1], "its first .* rows are others now, or in another order"),
        (texts(1_000), "rows that task 1 wrote when micro-batch 0 ran before, and the task has 500 for it now"),
        ([], "and the task has 0 for it now"),
    ):
        with pytest.raises(DeliveryGuaranteeError, match=f"{what}.*transaction is not committed: run the job again"):
            publish(client, options, rows_of(payloads), outcome=TaskOutcome(retried))
    publish(client, options, rows_of(texts(30_000)), outcome=TaskOutcome(retried))
    client.end_transaction(attempt.transaction, commit=True)
    assert counted(flows, topic) == Counter(texts(30_000))
    early, late = (replace(attempt, transaction=client.open_transaction(0, 60_000)) for _ in range(2))
    publish(client, options, rows_of(texts(10)), outcome=TaskOutcome(late))
    with pytest.raises(DeliveryGuaranteeError, match="knows messages of a later transaction"):
        publish(client, options, rows_of(texts(10)), outcome=TaskOutcome(early))
    for each in (early, late):
        client.end_transaction(each.transaction, commit=False)
    assert counted(flows, topic) == Counter(texts(30_000))


def test_a_batch_job_is_one_transaction(flows: Flows) -> None:
    # covers TXN-5
    topic = new_topic(flows, partitions=2)
    frame = flows.spark.range(0, 100, 1, 4).selectExpr("string(id) AS value", "string(id % 7) AS __key")
    flows.write(frame, topic, deliveryGuarantee="transactional")
    bad = frame.where(F.expr("if(value = '70', raise_error('a bad row'), true)"))
    with pytest.raises(Exception, match="a bad row"):
        flows.write(bad, topic, deliveryGuarantee="transactional")
    flows.send(topic, ["behind it"])
    assert counted(flows, topic) == Counter([*texts(100, prefix=""), "behind it"])


@pytest.mark.spark_alone
def test_rows_behind_a_shuffle_are_written(flows: Flows) -> None:
    # covers TXN-4
    source, topic = new_topic(flows, "source"), new_topic(flows)
    flows.send(source, 2 * texts(20))
    frame = flows.stream(source).dropDuplicates(["value"]).select("value")
    copy(flows, frame, flows.checkpoint(), topic)
    assert counted(flows, topic) == Counter(texts(20))


@pytest.mark.long
def test_writes_inside_foreach_batch_are_transactions(flows: Flows) -> None:
    # covers TXN-5
    source, topic, checkpoint = new_topic(flows, "source"), new_topic(flows), flows.checkpoint()
    flows.send(source, texts(20))
    frame = flows.stream(source).select("value")

    run = in_foreach_batch(flows, frame, checkpoint, topic, TRANSACTIONAL)

    with pytest.raises(StreamingQueryException, match="inside foreachBatch needs the option producerName"):
        run("")
    run("first", "second")
    uncommit(checkpoint)
    run("first", "second")
    assert counted(flows, topic) == Counter(2 * texts(20))


@pytest.mark.long
def test_a_transaction_that_takes_too_long_is_not_committed(flows: Flows) -> None:
    # covers TXN-6
    source, topic, checkpoint = new_topic(flows, "source"), new_topic(flows), flows.checkpoint()
    flows.send(source, texts(5))
    frame = flows.stream(source, smallBatchMaxMessages=0).select("value")
    slow = frame.where(F.expr("reflect('java.lang.Thread', 'sleep', 1500L) IS NULL"))
    with pytest.raises(StreamingQueryException, match=r"has ended before it was committed.*transactionTimeoutMs"):
        copy(flows, slow, checkpoint, topic, transactionTimeoutMs=1_000)
    copy(flows, frame, checkpoint, topic)
    assert counted(flows, topic) == Counter(texts(5))


def test_what_cannot_be_promised_is_refused(flows: Flows) -> None:
    # covers TXN-6
    source, plain = new_topic(flows, "source"), flows.broker.topic("plain")
    flows.send(source, texts(20))
    with pytest.raises(StreamingQueryException, match=r"does not de-duplicate.*set-deduplication --enable public/def"):
        copy(flows, flows.stream(source).select("value"), flows.checkpoint(), plain)
    row = flows.rows("value string", [("a",)])
    for name, value in (("chunkingEnabled", True), ("batcherBuilder", "KEY_BASED")):
        with pytest.raises(AnalysisException, match=f"{name}.* transactional contradict each other"):
            flows.write(row, plain, deliveryGuarantee="transactional", **{name: value})
    ordered = flows.rows("value string, __sequenceId bigint", [("a", 1)])
    with pytest.raises(AnalysisException, match="leave out the column __sequenceId"):
        flows.write(ordered, plain, deliveryGuarantee="transactional")
    with pytest.raises(AnalysisException, match="transactionTimeoutMs is for deliveryGuarantee transactional only"):
        flows.write(row, plain, transactionTimeoutMs=1_000)
    with pytest.raises(PythonException, match="producerName distinguishes the writes inside foreachBatch"):
        flows.write(row, source, deliveryGuarantee="transactional", producerName="nightly")


def test_a_broker_without_transactions_is_named(spark: SparkSession, switched_broker: Broker, tmp_path: Path) -> None:
    # covers TXN-6
    with Flows(spark, switched_broker, tmp_path) as flows:
        row = flows.rows("value string", [("a",)])
        with pytest.raises(AnalysisException, match=r"transactions are off at .*transactionCoordinatorEnabled=true"):
            flows.write(row, switched_broker.topic(), deliveryGuarantee="transactional")
