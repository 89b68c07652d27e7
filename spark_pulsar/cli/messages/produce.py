"""`spark-pulsar produce`: sends messages in batches, and ends when all are on disk."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter, deque
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any, Final

import typer

from spark_pulsar.cli.access.access import broker_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.messages.connecting import config_of, connected, failed, official_client, queries
from spark_pulsar.cli.messages.consume import chosen
from spark_pulsar.cli.messages.encoding import Encoder
from spark_pulsar.cli.messages.records import Outgoing
from spark_pulsar.cli.messages.sources import Sources
from spark_pulsar.cli.output.progress import Progress
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.model.errors import PulsarError

COMPRESSIONS: Final = {"none": "NONE", "lz4": "LZ4", "zlib": "ZLib", "zstd": "ZSTD", "snappy": "SNAPPY"}
_PENDING_BYTES: Final = 64 << 20
"""Bytes of messages that wait for their receipts; one larger message may always be on its way."""
_PENDING_MESSAGES: Final = 20_000
"""Messages that wait for their receipts: the client never has to block, so that Ctrl-C is noticed at once."""
_INTERRUPTED_S: Final = 3.0
"""Time for the receipts of what is under way at Ctrl-C."""
_REFUSAL_TIMEOUT_MS: Final = 2_000
_NO_RECEIPT: Final = "NoReceipt"
_SETTLED_AT_ONCE: Final = 100
_STEP_S: Final = 0.001
_SENT_A_STEP: Final = 1000
"""Messages between two steps of the progress."""
_ADVICE: Final = {
    "MessageTooBig": "larger than the broker takes: maxMessageSize",
    _NO_RECEIPT: "no receipt had come when Ctrl-C ended it",
    "Timeout": "no receipt came in 30 s",
    "TopicTerminated": "the topic was terminated and takes no more",
    "ProducerBlockedQuotaExceededException": "the backlog quota of the topic is used up",
    "ProducerBlockedQuotaExceededError": "the backlog quota of the topic is used up",
}


class Receipts:
    """Receipts of the messages that one producer has sent, as a thread of the client brings them: into a queue, since a
    lock for each would cost more than the message."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self._arrived: deque[tuple[int, Any]] = deque()
        self._pending = 0
        self._pending_bytes = 0

    def callback(self, size: int) -> Any:
        """Returns the callback of a message of this size."""
        return partial(self._arrive, size)

    def expect(self, size: int) -> None:
        """Counts a message of this size, which the client has taken and gives an outcome, at once perhaps."""
        self._pending += 1
        self._pending_bytes += size

    def _arrive(self, size: int, result: Any, _message_id: Any) -> None:
        self._arrived.append((size, result))

    def settle(self) -> None:
        """Counts the messages with a receipt."""
        for _ in range(len(self._arrived)):
            size, result = self._arrived.popleft()
            self._pending -= 1
            self._pending_bytes -= size
            self.outcomes[result.name] += 1

    def wait_for_room(self, size: int) -> bool:
        """Waits until a message of this size may be sent; False when one could not be stored. Each message has an
        outcome when the client's time-out is over at the latest, so there is always an end."""
        if len(self._arrived) >= _SETTLED_AT_ONCE or not self._has_room(size):
            self.settle()
        while not self._has_room(size):
            time.sleep(_STEP_S)
            self.settle()
        return self.outcomes.keys() <= {"Ok"}

    def _has_room(self, size: int) -> bool:
        if self._pending >= _PENDING_MESSAGES:
            return False
        return not self._pending_bytes or self._pending_bytes + size <= _PENDING_BYTES

    def wait_for_all(self, timeout_s: float = math.inf) -> None:
        """Waits until each message has its outcome, as it has when the client's time-out is over at the latest."""
        end_s = time.monotonic() + timeout_s
        self.settle()
        while self._pending and time.monotonic() < end_s:
            time.sleep(_STEP_S)
            self.settle()
        if self._pending:
            self.outcomes[_NO_RECEIPT] += self._pending


def produce(access: AccessOptions, topic: str, sources: Sources, *, count: int, compression: str = "none") -> None:
    """Sends every message `count` times, batched, and waits until all are on disk; says their number and rate on
    standard error. Exit status 1 when one could not be stored; those after it are not sent."""
    compressed = chosen(COMPRESSIONS, compression, "--compression")
    pulsar = official_client()
    receipts = Receipts()
    with connected(access) as client:
        encoder = _encoder(access, topic) if sources.is_encoded else None
        schema = {} if encoder is None else {"schema": encoder.of_producer()}
        try:
            producer = client.create_producer(
                topic,
                **schema,
                block_if_queue_full=True,
                max_pending_messages=_PENDING_MESSAGES,
                batching_enabled=True,
                compression_type=getattr(pulsar.CompressionType, compressed),
            )
        except pulsar.Timeout:
            if reason := _refusal(access, topic):
                raise failed(reason) from None
            raise
        since_s = time.monotonic()
        is_interrupted = False
        given = len(sources.texts) + len(sources.files)
        with Progress("Sending", None if sources.has_lines else given * count) as bar:
            try:
                _send_all(producer, sources.messages(encoder), count, receipts, bar)
            except KeyboardInterrupt:
                is_interrupted = True
            finally:
                receipts.wait_for_all(_INTERRUPTED_S if is_interrupted else math.inf)  # batches go by themselves
        _say(topic, receipts.outcomes["Ok"], time.monotonic() - since_s)
    refused = {name: number for name, number in receipts.outcomes.items() if name != "Ok"}
    if refused:
        numbers = [
            f"{number} ({name}: {_ADVICE[name]})" if name in _ADVICE else f"{number} ({name})"
            for name, number in refused.items()
        ]
        reason = _refusal(access, topic) if "Timeout" in refused else ""
        raise failed(f"not sent: {', '.join(numbers)}{reason and f': {reason}'}")
    if is_interrupted:
        raise typer.Exit(130)


def _encoder(access: AccessOptions, topic: str) -> Encoder:
    with queries(access) as questions:
        return Encoder(topic, questions.schema_of(topic))


def _send_all(producer: Any, messages: Iterable[Outgoing], count: int, receipts: Receipts, bar: Progress) -> None:
    sent = 0
    for message in messages:
        size = len(message.value or b"")
        given = _arguments(message)
        for _ in range(count):
            if not receipts.wait_for_room(size):
                return
            producer.send_async(message.value, receipts.callback(size), **given)
            receipts.expect(size)
            sent += 1
            if not sent % _SENT_A_STEP:
                bar.update(done=receipts.outcomes["Ok"])


def _arguments(message: Outgoing) -> dict[str, Any]:
    """Returns the arguments of the client for a message's key, properties and times."""
    given: dict[str, Any] = {
        "partition_key": message.key,
        "ordering_key": message.ordering_key,
        "properties": dict(message.properties),
        "event_timestamp": message.event_time_ms,
        "deliver_at": message.deliver_at_ms,
    }
    if message.deliver_after_ms is not None:
        given["deliver_after"] = timedelta(milliseconds=message.deliver_after_ms)
    return {name: value for name, value in given.items() if value}


def _refusal(access: AccessOptions, topic: str) -> str:
    """Returns why the broker takes no messages for now, such as a full disk; empty if it takes them again. The official
    client tries again until its time is up, and keeps the reason to itself."""
    with contextlib.closing(PulsarClient(config_of(broker_access(access), _REFUSAL_TIMEOUT_MS))) as client:
        try:
            client.publisher(client.partitions_of(topic)[0]).close()
        except OperationTimeout as error:
            return error.cause
        except PulsarError as error:
            return str(error)
    return ""


def _say(topic: str, stored: int, took_s: float) -> None:
    rate = f"{stored / took_s:,.0f}/s" if took_s > 0 else ""
    typer.echo(f"{stored} messages sent to {topic} in {took_s:.2f} s: {rate}", err=True)
