"""Transactions as a client of their coordinators: opened, given topic partitions, committed or aborted.

A transaction belongs to the coordinator that opened it, and to no connection: any process that knows its id may use
it. Coordinators are the partitions of a system topic, and served where a lookup of the partition says.
"""

import threading
from typing import Final
from weakref import WeakKeyDictionary

from spark_pulsar.client.connections.connection import Connection
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.lookup import TopicDirectory
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import TransactionId
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

from .connections.demultiplexer import next_id
from .connections.pipelined_requests import PipelinedRequest

COORDINATORS: Final = "persistent://pulsar/system/transaction_coordinator_assign"
"""The system topic whose partitions are the coordinators."""


class Transactions:
    """Requests to transaction coordinators. Thread-safe."""

    def __init__(self, directory: TopicDirectory) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._ready: WeakKeyDictionary[Connection, set[int]] = WeakKeyDictionary()
        """Coordinators that a broker has been requested to get ready."""

    def open(self, coordinator: int, timeout_ms: int, deadline: Deadline) -> PipelinedRequest[TransactionId]:
        """Opens a transaction, which is aborted when it has not ended after `timeout_ms`."""
        request_id = next_id()
        command = requests.new_transaction(request_id, coordinator, timeout_ms)
        answer = yield from self._request(coordinator, command, request_id, deadline)
        opened = answer.newTxnResponse
        return TransactionId(opened.txnid_most_bits, opened.txnid_least_bits)

    def add_partitions(
        self, transaction: TransactionId, partitions: list[str], deadline: Deadline
    ) -> PipelinedRequest[None]:
        """Adds partitions at the coordinator before the first message to them."""
        request_id = next_id()
        command = requests.add_partitions(request_id, transaction, partitions)
        yield from self._request(transaction.most, command, request_id, deadline)

    def end(self, transaction: TransactionId, *, commit: bool, deadline: Deadline) -> PipelinedRequest[None]:
        """Commits or aborts. TransactionNotFound when it has ended, as when an answer was lost (TXN-6)."""
        request_id = next_id()
        command = requests.end_transaction(request_id, transaction, commit=commit)
        yield from self._request(transaction.most, command, request_id, deadline)

    def _request(
        self, coordinator: int, command: BaseCommand, request_id: int, deadline: Deadline
    ) -> PipelinedRequest[BaseCommand]:
        topic = f"{COORDINATORS}-partition-{coordinator}"
        connection = yield from self._directory.connect(topic, deadline)
        try:
            with self._lock:
                is_ready = coordinator in self._ready.get(connection, ())
            if not is_ready:
                about = next_id()
                yield connection.start(requests.connect_coordinator(about, coordinator), about)
                with self._lock:
                    self._ready.setdefault(connection, set()).add(coordinator)
            return (yield connection.start(command, request_id))
        except PulsarError as error:
            if error.retriable:  # it may be another broker's by now
                self._directory.discard(topic)
                with self._lock:
                    self._ready.pop(connection, None)
            raise
