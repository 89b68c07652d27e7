"""`spark-pulsar read`: prints messages of a topic by readers, which leave no subscription behind.

Each partition has a reader of its own. The command prints the messages that exist when it begins in the order of
publish times across partitions; with `--follow` it then prints new ones as they arrive.
"""

from __future__ import annotations

import contextlib
import heapq
import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import typer

from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.bounds import Bound, now_ms, order_of, parse_bound
from spark_pulsar.cli.messages.connecting import connected, failed, official_client, queries
from spark_pulsar.cli.messages.consume import decoder_of
from spark_pulsar.cli.messages.forms import MessageFormat
from spark_pulsar.cli.messages.printing import Printer
from spark_pulsar.cli.messages.records import id_of
from spark_pulsar.cli.messages.templates import Template
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import EARLIEST_ID, MessageId

if TYPE_CHECKING:
    import pulsar

_STEP_MS: Final = 500
_PATIENCE_S: Final = 30
_QUEUED_MESSAGES: Final = 1000
"""Messages that wait in the client for being printed, those of all partitions together."""


def read(
    access: AccessOptions,
    topic: str,
    *,
    first: str,
    until: str,
    follow: bool,
    count: int,
    form: MessageFormat | Template,
    values_only: bool,
) -> None:
    """Prints messages of a topic from one bound to another, and their number on standard error."""
    start = parse_bound(first, "--from", words=("earliest", "latest"))
    end = parse_bound(until, "--until", words=("latest",))
    is_persistent = TopicName.parse(topic).domain == "persistent"
    if not is_persistent and not (follow and start.is_latest):
        raise typer.BadParameter("a non-persistent topic keeps no messages: read it with --from latest --follow")
    printed = 0
    with connected(access) as client, queries(access) as questions:
        printer = Printer(form, decoder_of(questions), values_only=values_only)
        readers = _readers(client, questions, topic, start, end, is_persistent)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                for message in islice(_messages(readers, follow, end), count or None):
                    printer.print(message)
                    printed += 1
        finally:
            for reader in readers:
                reader.close()
    typer.echo(f"{printed} messages read from {topic}", err=True)


def _readers(
    client: pulsar.Client, questions: PulsarClient, topic: str, start: Bound, end: Bound, is_persistent: bool
) -> list[PartitionReader]:
    partitions = questions.partitions_of(topic)
    for option, bound in (("--from", start), ("--until", end)):
        if bound.message_id is not None and len(partitions) > 1:
            one = f"{topic}-partition-{max(bound.partition, 0)}"
            raise typer.BadParameter(f"a message id is one of a partition: read {one}", param_hint=option)
    lasts = questions.last_message_ids(partitions) if is_persistent else dict.fromkeys(partitions)
    starts: dict[str, MessageId | None] = dict.fromkeys(partitions, start.message_id or EARLIEST_ID)
    if start.is_latest:
        starts = dict.fromkeys(partitions)
    elif start.time_ms is not None:
        starts |= questions.positions_at_time(partitions, start.time_ms)
    queued = max(1, _QUEUED_MESSAGES // len(partitions))
    return [
        PartitionReader(client, partition, starts[partition], lasts[partition], start, end, queued)
        for partition in partitions
    ]


def _messages(readers: list[PartitionReader], follow: bool, end: Bound) -> Iterator[pulsar.Message]:
    yield from _stored(readers)
    if not follow:
        return
    step_ms = _STEP_MS if len(readers) == 1 else 1
    while not all(reader.is_over for reader in readers):
        came = False
        for reader in readers:
            while (message := reader.next_within(step_ms)) is not None:
                came = True
                yield message
        if came:
            continue
        if end.time_ms is not None and now_ms() > end.time_ms:
            return  # nothing was published before that and is still to come
        if len(readers) > 1:
            time.sleep(0.05)


def _stored(readers: list[PartitionReader]) -> Iterator[pulsar.Message]:
    """Yields the messages that existed at the beginning, in the order of publish times where partitions allow it."""
    heads: list[tuple[int, int, pulsar.Message]] = []
    for at, reader in enumerate(readers):
        _push(heads, at, reader)
    while heads:
        _, at, message = heapq.heappop(heads)
        yield message
        _push(heads, at, readers[at])


def _push(heads: list[tuple[int, int, pulsar.Message]], at: int, reader: PartitionReader) -> None:
    message = reader.next_stored()
    if message is not None:
        heapq.heappush(heads, (message.publish_timestamp(), at, message))


class PartitionReader:
    """Reader of one partition between two bounds. Connects when a message is first requested."""

    def __init__(
        self,
        client: pulsar.Client,
        partition: str,
        start: MessageId | None,
        last: MessageId | None,
        first: Bound,
        end: Bound,
        queued: int,
    ) -> None:
        self._client = client
        self._partition = partition
        self._start = start
        self._last = last
        self._first_ms = first.time_ms
        self._end = end
        self._queued = queued
        self._reader: pulsar.Reader | None = None
        self._is_caught_up = last is None or start is None
        if last is not None and start is not None and not _is_before_all(start):
            self._is_caught_up = _entry(start) > _entry(last)
        self.is_over = False
        if start is None:
            self._opened()  # messages published from now on

    def next_stored(self) -> pulsar.Message | None:
        """Returns the next of the messages that were there at the beginning, None after the last of them."""
        since_s = time.monotonic()
        while not self._is_caught_up and not self.is_over:
            message = self.next_within(_STEP_MS)
            if message is not None:
                return message
            if self._is_caught_up or self.is_over or not self._opened().has_message_available():
                self._is_caught_up = True
            elif time.monotonic() - since_s > _PATIENCE_S:
                raise failed(f"{self._partition}: the next message did not come for {_PATIENCE_S} s; is it encrypted?")
        return None

    def next_within(self, timeout_ms: int) -> pulsar.Message | None:
        """Returns the next message, None when none came in time and after the last one that is wanted."""
        while not self.is_over:
            try:
                message = self._opened().read_next(timeout_millis=timeout_ms)
            except official_client().Timeout:
                return None
            place = order_of(id_of(message))
            if self._last is not None and place >= order_of(self._last):
                self._is_caught_up = True
            if self._is_beyond(message, place):
                self.is_over = True
                return None
            if self._first_ms is None or message.publish_timestamp() >= self._first_ms:
                return message
        return None

    def _is_beyond(self, message: pulsar.Message, place: tuple[int, int, int]) -> bool:
        until = self._end
        if until.time_ms is not None:
            return bool(message.publish_timestamp() >= until.time_ms)
        if until.message_id is None:
            return False
        last = until.message_id
        if last.batch_index < 0:  # the whole entry
            return place[:2] > (last.ledger_id, last.entry_id)
        return place > order_of(last)

    def _opened(self) -> pulsar.Reader:
        if self._reader is None:
            self._reader = self._client.create_reader(
                self._partition,
                _official_id(self._start),
                receiver_queue_size=self._queued,
                start_message_id_inclusive=self._start is not None,
            )
        return self._reader

    def close(self) -> None:
        """Closes the reader."""
        if self._reader is not None:
            self._reader.close()


def _entry(message_id: MessageId) -> tuple[int, int]:
    return message_id.ledger_id, message_id.entry_id


def _is_before_all(message_id: MessageId) -> bool:
    return message_id.ledger_id < 0


def _official_id(start: MessageId | None) -> object:
    official = official_client().MessageId
    if start is None:
        return official.latest
    if _is_before_all(start):
        return official.earliest
    return official(start.partition, start.ledger_id, start.entry_id, start.batch_index)._msg_id
