"""Transactions of the load generator: many in flight on one connection, each with a number of SENDs."""

import struct
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from crc32c import crc32c

from load import frames
from load.connection import Connection
from load.workloads import fresh_topic
from spark_pulsar.wire import pulsar_api_pb2 as api

COORDINATORS = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
TIMEOUT_MS = 60_000
_RECEIPT = api.BaseCommand.SEND_RECEIPT
_WIDTH = 5
_SHIFTS = 7 * np.arange(_WIDTH)
_MORE = np.array([0x80] * (_WIDTH - 1) + [0])
"""Bits that say that another byte of a varint follows."""


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


class Sends:
    """The SEND frames of a transaction, all of one length: numbers stand in varints of a fixed width, so that the
    generator costs less than the brokers that it measures."""

    def __init__(self, messages: int, payload: bytes) -> None:
        self._sequence_ids = np.arange(messages, dtype=np.int64)
        number = bytes(_WIDTH)
        send = (
            b"\x08" + frames.varint(frames.FIRST_PRODUCER_ID) + b"\x10" + number + b"\x20" + number + b"\x28" + number
        )
        base = b"\x08\x06\x32" + frames.varint(len(send)) + send
        metadata = b"\x0a\x04load\x10" + number + b"\x18" + frames.varint(1_700_000_000_000)
        metadata += b"\xb0\x01" + number + b"\xb8\x01" + number
        checked = struct.pack(">I", len(metadata)) + metadata + payload
        frame = (
            struct.pack(">II", 4 + len(base) + 6 + len(checked), len(base)) + base + b"\x0e\x01" + bytes(4) + checked
        )
        self._checked_at = len(frame) - len(checked)
        base_ends, metadata_ends = 8 + len(base), self._checked_at + 4 + len(metadata)
        least_to_end = 2 * _WIDTH + 1
        self._sequence_id_at = (base_ends - least_to_end - 1 - _WIDTH, self._checked_at + 11)
        self._least_at = (base_ends - least_to_end, metadata_ends - least_to_end - 1)
        self._most_at = (base_ends - _WIDTH, metadata_ends - _WIDTH)
        self._frames = np.tile(np.frombuffer(frame, np.uint8), (messages, 1))

    def data(self, most: int, least: int) -> memoryview:
        """Returns the frames of the next messages, in this transaction; good until it is called again."""
        wanted = zip(
            (self._sequence_id_at, self._least_at, self._most_at),
            (self._sequence_ids, np.array([least]), np.array([most])),
            strict=True,
        )
        for places, numbers in wanted:
            digits = numbers[:, None] >> _SHIFTS & 0x7F | _MORE
            for at in places:
                self._frames[:, at : at + _WIDTH] = digits
        self._sequence_ids += len(self._sequence_ids)
        size, at = self._frames.shape[1], self._checked_at
        view = self._frames.data.cast("B")
        checksums = [crc32c(view[start + at : start + size]) for start in range(0, len(view), size)]
        self._frames[:, at - 4 : at] = np.array(checksums, ">u4").view(np.uint8).reshape(-1, 4)
        return view


class Transactions:
    """Transactions of one connection to one topic."""

    def __init__(self, connection: Connection, messages: int, payload: bytes) -> None:
        self._connection = connection
        self._messages = messages
        self._sends = Sends(messages, payload)
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
        receipts = self._connection.leading(_RECEIPT)
        if receipts:
            self._stored(receipts)
            return False
        start = self._connection.next_frame()
        if self._connection.buffer[start + 9] == _RECEIPT:
            self._stored(1)
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

    def _stored(self, receipts: int) -> None:
        """Ends the transactions of which these receipts are the last."""
        while receipts:
            first = self._sending[0]
            own = min(receipts, first.awaited)
            first.awaited -= own
            receipts -= own
            if not first.awaited:
                self._end(self._sending.popleft())

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
        data = self._sends.data(transaction.most, transaction.least)
        self._sending.append(transaction)
        self._connection.send_all(data)

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
