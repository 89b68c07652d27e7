"""Messages that the official client sends for as long as a test lasts, and rows that a query has seen."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from types import TracebackType
from typing import Any

import pulsar
from pyspark.sql import DataFrame

from tests.spark.flows import Flows

_PAUSE_S = 0.002
_BURST = 10


class Traffic:
    """An official producer that sends numbers, from 0 on, in a thread of its own, until the block ends.

    Without deduplication a producer that was cut off sends again what it has no receipt for: a number may be there
    twice. What the topic holds is therefore the measure, and the numbers with a receipt are its least.
    """

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self.stored: set[int] = set()
        self.failed: list[pulsar.Result] = []
        self._producer = client.create_producer(
            topic,
            send_timeout_millis=0,
            block_if_queue_full=True,
            batching_enabled=True,
            batching_max_messages=_BURST,
            message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._send, name="traffic")

    def _send(self) -> None:
        for number in itertools.count():
            if number % _BURST == 0 and self._ends.wait(_BURST * _PAUSE_S):
                break
            self._producer.send_async(
                str(number).encode(),
                lambda result, _, number=number: self._sent(result, number),
                partition_key=str(number % 97),
            )
        self._producer.flush()

    def _sent(self, result: pulsar.Result, number: int) -> None:
        if result == pulsar.Result.Ok:
            self.stored.add(number)
        else:
            self.failed.append(result)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join(120)
        assert not self._thread.is_alive()
        self._producer.close()
        assert not self.failed, self.failed


class Seen:
    """A foreachBatch function that keeps ids and values of all rows."""

    def __init__(self) -> None:
        self.rows: dict[int, list[tuple[bytes, int]]] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        found = frame.selectExpr("__messageId AS id", "int(string(value)) AS value").collect()
        self.rows[batch_id] = [(bytes(row["id"]), int(row["value"])) for row in found]

    @property
    def count(self) -> int:
        """Counts the rows."""
        return sum(len(rows) for rows in self.rows.values())

    @property
    def all(self) -> Counter[tuple[Any, ...]]:
        """Every row: where the message is, and its value."""
        return Counter(
            (*_place(pulsar.MessageId.deserialize(message_id)), value)
            for rows in self.rows.values()
            for message_id, value in rows
        )


def _place(message_id: pulsar.MessageId) -> tuple[int, int, int, int]:
    return (message_id.ledger_id(), message_id.entry_id(), message_id.partition(), message_id.batch_index())


def on_topic(flows: Flows, topic: str) -> Counter[tuple[Any, ...]]:
    """Every message of a topic as the official reader finds it: where it is, and its value."""
    out: Counter[tuple[Any, ...]] = Counter()
    for message in flows.receive(topic):
        partition = message.topic_name().rpartition("-partition-")[2]
        ledger, entry, _, index = _place(message.message_id())
        out[(ledger, entry, int(partition) if partition.isdigit() else -1, index, int(message.data()))] += 1
    return out
