"""Transactions of the load generator: many in flight on one connection, each with a number of SENDs."""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from crc32c import crc32c

from load import frames
from load.connection import Connection
from load.workloads import fresh_topic
from spark_pulsar.wire import pulsar_api_pb2 as api

COORDINATORS = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
TIMEOUT_MS = 60_000
_RECEIPT = api.BaseCommand.SEND_RECEIPT


@dataclass(slots=True)
class Open:
    """A transaction on its way."""

    most: int
    least: int
    awaited: int
    """Receipts that are not here yet."""
    ends_s: float = 0.0
    """Time of END_TXN."""


@dataclass(slots=True)
class Done:
    """Committed transactions of a measurement."""

    transactions: int = 0
    elapsed_s: float = 0.0
    commits_s: list[float] = field(default_factory=list)
    """Times from END_TXN to its answer."""


class Transactions:
    """Transactions of one connection to one topic."""

    def __init__(self, connection: Connection, messages: int, payload: bytes) -> None:
        self._connection = connection
        self._messages = messages
        self._payload = payload
        self._sequence_id = 0
        self._topic = fresh_topic()
        self._asked: dict[int, Open | None] = {}
        """What each request is about: None for NEW_TXN."""
        self._sending: deque[Open] = deque()
        """Transactions in the order of their SENDs, which is that of the receipts."""
        connection.look_up(COORDINATORS)
        connect = api.CommandTcClientConnectRequest(tc_id=0, request_id=connection.request_id())
        connection.send_all(frames.command(tcClientConnectRequest=connect))
        connection.answer("tcClientConnectResponse")
        connection.create_producers([self._topic])

    def begin(self) -> None:
        """Opens a transaction."""
        request_id = self._connection.request_id()
        self._asked[request_id] = None
        self._connection.send_all(
            frames.command(newTxn=api.CommandNewTxn(request_id=request_id, tc_id=0, txn_ttl_millis=TIMEOUT_MS))
        )

    def step(self, done: Done) -> bool:
        """Takes the next frame and goes on with its transaction; True when that was a commit."""
        start = self._connection.next_frame()
        if self._connection.buffer[start + 9] == _RECEIPT:
            first = self._sending[0]
            first.awaited -= 1
            if not first.awaited:
                self._end(self._sending.popleft())
            return False
        command = self._connection.command_at(start)
        if command.type == api.BaseCommand.PING:
            self._connection.send_all(frames.command(pong=api.CommandPong()))
            return False
        answer: Any = next(value for name, value in command.ListFields() if name.name != "type")
        if answer.HasField("error"):
            raise RuntimeError(str(command))
        transaction = self._asked.pop(answer.request_id)
        if transaction is None:
            self._add(Open(answer.txnid_most_bits, answer.txnid_least_bits, self._messages))
        elif not transaction.ends_s:
            self._send(transaction)
        else:
            done.transactions += 1
            done.commits_s.append(time.perf_counter() - transaction.ends_s)
            return True
        return False

    def _add(self, transaction: Open) -> None:
        request_id = self._connection.request_id()
        self._asked[request_id] = transaction
        request = api.CommandAddPartitionToTxn(
            request_id=request_id,
            txnid_most_bits=transaction.most,
            txnid_least_bits=transaction.least,
            partitions=[self._topic],
        )
        self._connection.send_all(frames.command(addPartitionToTxn=request))

    def _send(self, transaction: Open) -> None:
        most, least = transaction.most, transaction.least
        parts: list[bytes] = []
        for _ in range(self._messages):
            send = api.CommandSend(producer_id=frames.FIRST_PRODUCER_ID, sequence_id=self._sequence_id)
            send.txnid_most_bits, send.txnid_least_bits = most, least
            command = api.BaseCommand(type=api.BaseCommand.SEND, send=send).SerializeToString()
            described = api.MessageMetadata(
                producer_name=frames.PRODUCER_NAME,
                sequence_id=self._sequence_id,
                publish_time=1_700_000_000_000,
                txnid_most_bits=most,
                txnid_least_bits=least,
            )
            metadata = described.SerializeToString()
            body = len(metadata).to_bytes(4, "big") + metadata + self._payload
            size = 4 + len(command) + 6 + len(body)
            head = size.to_bytes(4, "big") + len(command).to_bytes(4, "big") + command + b"\x0e\x01"
            parts.append(head + crc32c(body).to_bytes(4, "big") + body)
            self._sequence_id += 1
        self._sending.append(transaction)
        self._connection.send_all(b"".join(parts))

    def _end(self, transaction: Open) -> None:
        request_id = self._connection.request_id()
        self._asked[request_id] = transaction
        request = api.CommandEndTxn(
            request_id=request_id,
            txnid_most_bits=transaction.most,
            txnid_least_bits=transaction.least,
            txn_action=api.COMMIT,
        )
        transaction.ends_s = time.perf_counter()
        self._connection.send_all(frames.command(endTxn=request))


def commit(service_url: str, messages: int, payload: bytes, in_flight: int, seconds: float) -> Done:
    """Commits transactions, so many at once."""
    done = Done()
    with Connection(service_url) as connection:
        transactions = Transactions(connection, messages, payload)
        started = time.perf_counter()
        for _ in range(in_flight):
            transactions.begin()
        while time.perf_counter() - started < seconds:
            if transactions.step(done):
                transactions.begin()
        done.elapsed_s = time.perf_counter() - started
    return done


def commit_paced(service_url: str, messages: int, payload: bytes, per_s: float, seconds: float) -> Done:
    """Commits one transaction after the other, so many a second."""
    done = Done()
    with Connection(service_url) as connection:
        transactions = Transactions(connection, messages, payload)
        started = time.perf_counter()
        for turn in range(int(per_s * seconds)):
            time.sleep(max(0.0, started + turn / per_s - time.perf_counter()))
            transactions.begin()
            while not transactions.step(done):
                pass
        done.elapsed_s = time.perf_counter() - started
    return done
