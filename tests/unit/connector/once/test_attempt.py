"""Effectively once, as far as no broker is needed: attempts, and the ids of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.once.attempt import (
    ROWS_OF_A_BATCH,
    ROWS_OF_A_TRANSACTION,
    TaskAttempt,
    attempt_of,
    query_of,
)
from spark_pulsar.connector.once.sequence_ids import SequenceIds
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.model.ids import TransactionId
from spark_pulsar.wire.columns.hashes import group_rows

SEEN = {"spark.sql.adaptive.streaming.stateless.enabled": "false"}
STREAM = {"sql.streaming.queryId": "query", "streaming.sql.batchId": "7", **SEEN}
BATCH = {"spark.sql.adaptive.enabled": "false"}
SHUFFLED = {"__fetch_continuous_blocks_in_batch_enabled": "true"}


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
    # covers CONN-32, CONN-37
    assert attempt(STREAM, None) == TaskAttempt("spark-pulsar-query", 7, 3)
    assert attempt(STREAM, None, producerName="copy") == TaskAttempt("copy-query", 7, 3)
    assert attempt(STREAM | BATCH, "job", producerName="copy") == TaskAttempt("copy-query", 7, 3)
    assert attempt(BATCH, "job") == TaskAttempt("spark-pulsar-job", 0, 3)
    assert attempt({}, "job", ids=True, producerName="nightly") == TaskAttempt("nightly", 0, 3)
    assert attempt(STREAM, None).producer_name(4) == "spark-pulsar-query-partitions-4-task-3"
    assert attempt(STREAM, None).first_sequence_id == 7 * ROWS_OF_A_BATCH + 1


def in_transaction(properties: dict[str, str], job: str | None, number: int = 0, **more: str) -> TaskAttempt:
    chosen = options(deliveryGuarantee="transactional", **more)
    return attempt_of(Context(properties, number), chosen, job, TransactionId(2, 5), has_sequence_ids=False)


def test_in_a_transaction_names_are_its_coordinators_and_ids_its_own() -> None:
    # covers CONN-90, CONN-93
    one = in_transaction(STREAM, None)
    assert one == TaskAttempt("spark-pulsar-query", 7, 3, TransactionId(2, 5))
    assert one.producer_name(4) == "spark-pulsar-query-coordinator-2-partitions-4-task-3"
    assert one.first_sequence_id == 5 * ROWS_OF_A_TRANSACTION + 1
    assert one.last_sequence_id == replace(one, transaction=TransactionId(2, 6)).first_sequence_id - 1
    assert query_of(Context(STREAM)) == "query"
    assert query_of(Context({})) is None


def test_in_a_transaction_only_a_later_attempt_needs_an_order() -> None:
    # covers CONN-93, CONN-94, CONN-95
    first = in_transaction(STREAM | SHUFFLED, None)
    first.check_known("t", first.first_sequence_id - 1)
    for last in (first.first_sequence_id, first.last_sequence_id):
        with pytest.raises(DeliveryGuaranteeError, match=r"attempt of task 3 was lost.*come from a shuffle"):
            first.check_known("t", last)
    with pytest.raises(DeliveryGuaranteeError, match="knows messages of a later transaction"):
        first.check_known("t", first.last_sequence_id + 1)
    with pytest.raises(DeliveryGuaranteeError, match=r"attempt of task 3 was lost.*come from a shuffle"):
        in_transaction(STREAM | SHUFFLED, None, number=1)
    ordered = in_transaction(STREAM | SHUFFLED, None, number=1, repeatableRowOrder="true")
    ordered.check_known("t", ordered.first_sequence_id)
    with pytest.raises(DeliveryGuaranteeError, match=r"transactional: .*spark\.speculation"):
        in_transaction(STREAM | {"spark.speculation": "true"}, None)
    with pytest.raises(DeliveryGuaranteeError, match="producerName tells the writes inside foreachBatch apart"):
        in_transaction({}, "job", producerName="nightly")


def test_what_is_refused() -> None:
    # covers CONN-37, CONN-38
    with pytest.raises(DeliveryGuaranteeError, match="inside foreachBatch needs the option producerName"):
        attempt(STREAM | BATCH, "job")
    with pytest.raises(DeliveryGuaranteeError, match="a batch write with producerName needs the column __sequenceId"):
        attempt(BATCH, "job", producerName="nightly")
    with pytest.raises(DeliveryGuaranteeError, match=r"set spark\.speculation to false"):
        attempt(STREAM | {"spark.speculation": "true"}, None)
    with pytest.raises(DeliveryGuaranteeError, match="come from a shuffle"):
        attempt(STREAM | SHUFFLED, None)
    assert attempt(STREAM | SHUFFLED, None, ids=True) == attempt(STREAM, None)
    assert attempt(STREAM | SHUFFLED, None, repeatableRowOrder="true") == attempt(STREAM, None)
    hidden = {name: value for name, value in STREAM.items() if name not in SEEN}
    for properties, job in ((hidden, None), (STREAM, "job"), ({}, "job")):
        with pytest.raises(DeliveryGuaranteeError, match="adaptive execution hides"):
            attempt(properties, job, producerName="copy")
    assert attempt(hidden | BATCH, None) == attempt(hidden, None, repeatableRowOrder="true") == attempt(STREAM, None)


def test_ids_are_counted_on_each_partition() -> None:
    # covers CONN-34
    ids = SequenceIds(["a", "b", "c"])
    ids.begin(0, 1)
    ids.begin(2, 1)
    assert ids.counted(group_rows([2, 0, 2, 2], 3)).tolist() == [1, 1, 2, 3]
    ids.begin(1, 10)
    assert ids.counted(group_rows([0, 1, 2, 0, 1], 3)).tolist() == [2, 3, 10, 11, 4]


def test_rows_that_no_id_is_left_for_are_refused() -> None:
    # covers CONN-34
    last = TaskAttempt("copy", 0, 0).last_sequence_id
    ids = SequenceIds(["a"], last)
    ids.begin(0, last - 1)
    assert ids.counted(group_rows([0, 0], 1)).tolist() == [last - 1, last]
    with pytest.raises(DeliveryGuaranteeError, match="more rows of one micro-batch for a than there are sequence ids"):
        ids.counted(group_rows([0], 1))
    assert last == TaskAttempt("copy", 1, 0).first_sequence_id - 1


def test_ids_of_a_column_follow_their_rows() -> None:
    # covers CONN-36
    ids = SequenceIds(["a", "b"])
    column = pa.chunked_array([pa.array([5, 3], pa.int64()), pa.array([9, 4], pa.int64())])
    assert ids.given(column, group_rows(np.array([1, 0, 1, 0]), 2)).tolist() == [3, 4, 5, 9]
