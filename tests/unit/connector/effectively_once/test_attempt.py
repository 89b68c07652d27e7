"""Effectively once, as far as no broker is needed: attempts, and the ids of rows."""

from __future__ import annotations

import pytest

from spark_pulsar.connector.effectively_once.attempt import TaskAttempt, attempt_of
from spark_pulsar.connector.effectively_once.checked_sequence_ids import Place
from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.model.positions.ids import TransactionId

STREAM = {"sql.streaming.queryId": "query", "streaming.sql.batchId": "7", "spark.jobGroup.id": "run"}


class Context:
    """Task 3 of a job with some properties."""

    def __init__(self, properties: dict[str, str], attempt: int = 0) -> None:
        self._properties = properties
        self._attempt = attempt

    def partitionId(self) -> int:
        return 3

    def attemptNumber(self) -> int:
        return self._attempt

    def getLocalProperty(self, key: str) -> str | None:
        return self._properties.get(key)


def options(**more: str) -> Options:
    return parse_options({"service.url": "pulsar://h", "topic": "t", "deliveryGuarantee": "effectively-once"} | more)


def attempt(properties: dict[str, str], job: str | None, *, ids: bool = False, **more: str) -> TaskAttempt:
    return attempt_of(Context(properties), options(**more), job, has_sequence_ids=ids)


def test_names_are_those_of_query_or_job_and_task() -> None:
    # covers ONCE-1, ONCE-6
    of_query = {"is_of_query": True, "run_id": "run"}
    assert attempt(STREAM, None) == TaskAttempt("spark-pulsar-query", 7, 3, **of_query)
    assert attempt(STREAM, None, producerName="copy") == TaskAttempt("copy-query", 7, 3, **of_query)
    assert attempt(STREAM, "job", producerName="copy") == TaskAttempt(
        "copy-query", 7, 3, **of_query, is_in_foreach_batch=True
    )
    assert attempt({}, "job") == TaskAttempt("spark-pulsar-job", 0, 3)
    named = attempt({}, "job", ids=True, producerName="nightly")
    assert named == TaskAttempt("nightly", 0, 3, has_sequence_ids=True)
    assert named.producer_name(4) == "nightly-partitions-4-task-3"
    assert attempt(STREAM, None).producer_name(4) == "spark-pulsar-query-partitions-4-task-3-epoch-0"
    late = STREAM | {"streaming.sql.batchId": str(2 * 65536 + 1)}
    assert attempt(late, None).producer_name(4, 5) == "spark-pulsar-query-partitions-4-task-5-epoch-2"


def test_the_last_attempt_is_known() -> None:
    # covers TXN-3
    for master, failures, last in (
        ("local", None, 0),
        ("local[2]", "9", 0),
        ("local[*, 4]", None, 3),
        ("spark://h:7077", None, 3),
        ("yarn", "2", 1),
        (None, None, 3),
    ):
        told = {"spark.master": master, "spark.task.maxFailures": failures}
        properties = STREAM | {name: value for name, value in told.items() if value is not None}
        attempts = [attempt_of(Context(properties, at), options(), None, has_sequence_ids=False) for at in range(5)]
        assert [each.is_last for each in attempts] == [at >= last for at in range(5)], master


def in_transaction(properties: dict[str, str], job: str | None, number: int = 0, **more: str) -> TaskAttempt:
    chosen = options(deliveryGuarantee="transactional", **more)
    return attempt_of(Context(properties, number), chosen, job, TransactionId(2, 65541), has_sequence_ids=False)


def test_in_a_transaction_names_are_its_coordinators_and_ids_its_own() -> None:
    # covers TXN-1, TXN-4
    one = in_transaction(STREAM, None, 1)
    assert one.number == 65541
    assert one.producer_name(4) == "spark-pulsar-query-coordinator-2-partitions-4-task-3-epoch-1"
    assert [one.check_known("t", last) for last in (-1, Place(4, 9, 9).sequence_id, Place(5, 9, 9).sequence_id)] == [
        0,
        0,
        9,
    ]
    with pytest.raises(DeliveryGuaranteeError, match="knows messages of a later transaction"):
        one.check_known("t", Place(6, 1, 1).sequence_id)
    with pytest.raises(DeliveryGuaranteeError, match=r"transactional: .*spark\.speculation"):
        in_transaction(STREAM | {"spark.speculation": "true"}, None)
    with pytest.raises(DeliveryGuaranteeError, match="producerName distinguishes the writes inside foreachBatch"):
        in_transaction({}, "job", producerName="nightly")


def test_a_checkpoint_that_is_older_than_what_was_written_is_refused() -> None:
    # covers ONCE-11
    one = attempt(STREAM, None)
    assert one.check_known("t", Place(6, 5, 5).sequence_id) == 0
    assert one.check_known("t", Place(7, 5, 5).sequence_id) == 5
    with pytest.raises(DeliveryGuaranteeError, match=r"micro-batch 9 of this query, and this is micro-batch 7"):
        one.check_known("t", Place(9, 1, 1).sequence_id)


def test_what_is_refused() -> None:
    # covers ONCE-6, ONCE-7
    with pytest.raises(DeliveryGuaranteeError, match="inside foreachBatch needs the option producerName"):
        attempt(STREAM, "job")
    with pytest.raises(DeliveryGuaranteeError, match="a batch write with producerName needs the column __sequenceId"):
        attempt({}, "job", producerName="nightly")
    with pytest.raises(DeliveryGuaranteeError, match=r"set spark\.speculation to false"):
        attempt(STREAM | {"spark.speculation": "true"}, None)
