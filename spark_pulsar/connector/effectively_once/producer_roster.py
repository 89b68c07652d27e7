"""The roster of a query: which of its tasks have ever written to which partitions, in a topic of its own.

A task knows what its own producers have written. Rows of a micro-batch that runs again may also have been written by
tasks that it no longer has: a checkpoint that lost its newest files lets Spark plan a micro-batch anew, from more data
and with another number of tasks. So a task notes each producer of which the broker knows nothing yet, before it writes,
and the driver queries, at the first micro-batch of a run, the last ids of the producers that no task has opened
(ONCE-12).

A durable subscription keeps the notes. A query notes anything only while it is new, or has new tasks.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.connector.effectively_once.log_topics import log_subscription, log_topic, messages_from
from spark_pulsar.connector.effectively_once.outcomes import TaskProducer
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.timeouts import naming
from spark_pulsar.model.errors import PulsarError, TopicNotFound
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

if TYPE_CHECKING:
    from spark_pulsar.connector.effectively_once.attempt import TaskAttempt

LOG: Final = logging.getLogger("spark_pulsar")

PREFIX: Final = "__spark_pulsar_producers-"
"""Begin of the local name of a roster's topic."""
PRODUCERS: Final = "producers"
"""Field that only messages of a roster have."""


class Roster:
    """The roster of one query."""

    def __init__(self, client: PulsarClient, options: Options, attempt: TaskAttempt) -> None:
        self._client = client
        self._is_named = options.transaction_topic is not None
        self._attempt = attempt
        self._topic = log_topic(options, PREFIX, attempt.writer)
        self._subscription = log_subscription(options, f"{attempt.writer}-producers")

    @naming("operationTimeoutMs")
    def note(self, producers: Sequence[TaskProducer]) -> None:
        """Notes producers; returns when that is stored."""
        with self._going_on_without():
            partition = self._client.partitions_of(self._topic, create=True)[0]
            roster = {"writer": self._attempt.writer, PRODUCERS: [list(producer) for producer in producers]}
            with self._client.publisher(partition) as publisher:
                self._client.cursor_positions([partition], self._subscription, "earliest")  # keeps the notes
                publisher.send(MessageMetadata(), json.dumps(roster).encode())

    @naming("operationTimeoutMs")
    def noted(self) -> set[TaskProducer]:
        """Returns the producers that were noted."""
        noted: set[TaskProducer] = set()
        with self._going_on_without():
            try:
                partition = self._client.partitions_of(self._topic)[0]
            except TopicNotFound:
                return noted  # no task has ever written anything
            start = self._client.cursor_positions([partition], self._subscription, "earliest")[partition]
            for _, payload in messages_from(self._client, partition, start):
                noted |= self._parsed(payload)
        return noted

    def _parsed(self, payload: bytes) -> set[TaskProducer]:
        try:
            roster = json.loads(payload)
            if not roster or PRODUCERS not in roster or roster["writer"] != self._attempt.writer:
                return set()
            return {TaskProducer(str(topic), *map(int, numbers)) for topic, *numbers in roster[PRODUCERS]}
        except (ValueError, KeyError, TypeError) as error:
            raise self._attempt.refused(
                f"a message of {self._topic} is none of this query; give another transactionTopic"
            ) from error

    @contextmanager
    def _going_on_without(self) -> Iterator[None]:
        """Lets a query go on whose role may not use the topic: it loses the notice of a micro-batch that was planned
        anew with fewer tasks, and few clusters let a role make topics. A topic that the user names is an error."""
        try:
            yield
        except OperationTimeout:
            raise
        except PulsarError as error:
            if self._is_named or error.retriable:
                raise
            LOG.warning(
                "the tasks of %s are not noted in %s, so that a micro-batch that is planned anew with fewer tasks, "
                "from a checkpoint that lost files, is not noticed; allow it, or name another topic with the option "
                "transactionTopic (%s)",
                self._attempt.writer,
                self._topic,
                error,
            )
