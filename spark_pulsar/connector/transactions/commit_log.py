"""The log of a query's transactions: which micro-batch was committed last, in a topic of its own.

A driver that dies around its commit leaves a query that does not know whether its last micro-batch was committed, and
perhaps a transaction that is still open, or just about to be committed. So the first task of each micro-batch

- publishes a note of its transaction, in no transaction;
- ends what was noted before: aborts each transaction of which no commit can be read. Whoever has noted a transaction
  later decides about the earlier one, so that of two that run the same micro-batch one at most commits;
- then reads which micro-batch was committed last. If it is this one, the rows are there: the driver aborts;
- else publishes that it has got so far, for a later attempt of the task, which cannot read on;
- and publishes the commit of this one, in the transaction, so that it can be read exactly if that is committed.

A durable subscription keeps what is still to be read; it stands at the last commit.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.positions import after_entry
from spark_pulsar.client.publisher import Publisher
from spark_pulsar.client.retry import Backoff
from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.options.options import TRANSACTIONAL, Options
from spark_pulsar.connector.options.timeouts import naming
from spark_pulsar.connector.transactions.results import LogPlace
from spark_pulsar.connector.transactions.transaction import abort, add_partitions
from spark_pulsar.model.errors import ServiceNotReady
from spark_pulsar.model.ids import MessageId, Position, TransactionId
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.entries import parse_entry
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

if TYPE_CHECKING:
    from spark_pulsar.connector.once.attempt import TaskAttempt

PREFIX: Final = "__spark_pulsar_transactions-"
"""Begin of the local name of a log's topic, which topic lists and patterns leave out."""
_ADVANCE_AFTER: Final = 64
"""Records behind which the subscription may stay."""


class Record(NamedTuple):
    """One message of the log: a note of a transaction, or its commit."""

    position: Position
    writer: str
    transaction: TransactionId
    batch_id: int
    ended_before: Position | None
    """Transactions noted before this position have ended. None of the first notes of a transaction."""
    is_commit: bool


def log_topic(options: Options, writer: str) -> str:
    """Returns the topic of the log."""
    if options.transaction_topic is not None:
        return options.transaction_topic
    namespace = "public/default" if options.topic is None else TopicName.parse(options.topic).namespace_name
    return f"persistent://{namespace}/{PREFIX}{quote(writer, safe='')}"


class CommitLog:
    """The log of one query, as an attempt of the first task of a micro-batch uses it."""

    def __init__(self, client: PulsarClient, options: Options, attempt: TaskAttempt) -> None:
        assert attempt.transaction is not None
        self._client = client
        self._attempt = attempt
        self._transaction = attempt.transaction
        self.place = LogPlace(client.partitions_of(log_topic(options, attempt.writer), create=True)[0], attempt.writer)
        self._deadline = Deadline(
            options.operation_timeout_ms,
            f"waiting for earlier transactions of {attempt.writer} to end, on {self.place.partition}",
            options.service_url,
        )
        self._backoff = Backoff()

    @naming("operationTimeoutMs")
    def claim(self) -> bool:
        """Ends the query's earlier transactions and notes the commit of this one; false if the micro-batch is committed
        already. Raises DeliveryGuaranteeError when the log was lost."""
        partition, writer = self.place.partition, self.place.writer
        with self._client.publisher(partition) as notes:
            start = self._client.cursor_positions([partition], writer, "earliest")[partition]
            records = self._read_on(notes, start)
            own = [record for record in records if record.transaction == self._transaction]
            if all(record.ended_before is None for record in own):
                if self._last_commit(records, start) >= self._attempt.batch_id:
                    return False
                notes.send(MessageMetadata(), self._told(ended_before=own[0].position))
        add_partitions(self._client, self._transaction, [partition])
        with self._client.publisher(partition, transaction=self._transaction) as commit:
            commit.send(MessageMetadata(), self._told(ended_before=own[0].position, is_commit=True))
        return True

    def _last_commit(self, records: list[Record], start: MessageId) -> int:
        """Returns the micro-batch that was committed last, -1 for none. Raises DeliveryGuaranteeError when that was
        lost."""
        partition, writer = self.place.partition, self.place.writer
        commits = [record for record in records if record.writer == writer and record.is_commit]
        if not commits:
            if start.entry_id > 0:
                raise DeliveryGuaranteeError(
                    f"deliveryGuarantee = {TRANSACTIONAL}: the last commit of {writer} was removed from {partition}, "
                    "by TTL or an admin, so that it cannot be told whether this micro-batch was written. Look for it, "
                    "then delete that topic to have it written"
                )
            return -1
        if len(records) > _ADVANCE_AFTER:
            at = MessageId(*commits[-1].position, TopicName.parse(partition).partition)
            self._client.advance_cursors({partition: at}, writer)
        return commits[-1].batch_id

    def _read_on(self, notes: Publisher, start: MessageId) -> list[Record]:
        """Notes the transaction, and returns the records up to there, when what was noted before has ended."""
        ended: set[TransactionId] = set()
        at = self._noted(notes)
        while True:
            records = read_records(self._client, self.place.partition, start)
            if any(one.transaction == self._transaction and one.ended_before is not None for one in records):
                return records  # an earlier attempt has got so far, and what it wrote then hides the rest
            open_still = [one for one in self._noted_before(records) if one not in ended]
            for transaction in open_still:
                abort(self._client, transaction)
                ended.add(transaction)
            if open_still:
                at = self._noted(notes)  # behind whatever these have written until they ended
            elif records and records[-1].position >= at:
                return records
            else:
                self._wait()

    def _noted(self, notes: Publisher) -> Position:
        notes.send(MessageMetadata(), self._told(ended_before=None))
        notes.flush()
        assert notes.last_message_id is not None
        return notes.last_message_id.position

    def _told(self, ended_before: Position | None, *, is_commit: bool = False) -> bytes:
        told = {
            "writer": self._attempt.writer,
            "transaction": list(self._transaction),
            "batch": self._attempt.batch_id,
            **({} if ended_before is None else {"endedBefore": list(ended_before)}),
            **({"commit": True} if is_commit else {}),
        }
        return json.dumps(told).encode()

    def _noted_before(self, records: list[Record]) -> list[TransactionId]:
        """Returns the query's transactions that were noted before this one and may be open."""
        noted: dict[TransactionId, Position] = {}
        for record in records:
            if record.writer != self._attempt.writer:
                continue
            if record.is_commit:
                assert record.ended_before is not None
                noted.pop(record.transaction, None)
                noted = {one: at for one, at in noted.items() if at >= record.ended_before}
            elif record.transaction == self._transaction:
                break
            else:
                noted.setdefault(record.transaction, record.position)
        return list(noted)

    def _wait(self) -> None:
        """Waits for the end of the log, which a transaction that is ending still hides.

        One that was written to after its end would hide it for ever: a broker that keeps such messages gives them up
        when it ends another transaction there.
        """
        cause = ServiceNotReady("another transaction is open there")
        self._backoff.pause(self._deadline, cause)
        helper = self._client.open_transaction(self._transaction.most, self._deadline.timeout_ms)
        self._client.add_partitions(helper, [self.place.partition])
        abort(self._client, helper)


def is_committed(client: PulsarClient, options: Options, place: LogPlace, transaction: TransactionId) -> bool:
    """Tells whether a transaction that has ended was committed, or is just being committed."""
    deadline = Deadline(options.operation_timeout_ms, f"looking for the commit of {transaction}", place.partition)
    start = client.cursor_positions([place.partition], place.writer, "earliest")[place.partition]
    with client.publisher(place.partition) as notes:
        notes.send(MessageMetadata(), b"{}")  # behind the commit, if there is one
        notes.flush()
        assert notes.last_message_id is not None
        at = notes.last_message_id.position
    backoff = Backoff()
    while True:
        last = client.last_message_id(place.partition)
        records = read_records(client, place.partition, start)
        if any(one.transaction == transaction and one.is_commit for one in records):
            return True
        if (last is not None and last.position >= at) or _is_superseded(records, transaction):
            return False
        backoff.pause(deadline, ServiceNotReady("another transaction is open there"))


def _is_superseded(records: list[Record], transaction: TransactionId) -> bool:
    """Tells whether a later transaction has looked for the commit of this one, and has not found it."""
    noted = next((one.position for one in records if one.transaction == transaction), None)
    return noted is not None and any(one.ended_before is not None and one.ended_before > noted for one in records)


def read_records(client: PulsarClient, partition: str, start: MessageId) -> list[Record]:
    """Returns the records from a position on, as far as they can be read. Raises DeliveryGuaranteeError for a message
    that is none."""
    last = client.last_message_id(partition)
    if last is None or last.position < start.position:
        return []
    records = []
    with client.fetch(partition, start, after_entry(last), is_shared=True) as fetch:
        for block in fetch:
            ids = zip(block.ledger_ids, block.entry_ids, strict=True)
            for at, start_at, end_at in zip(ids, block.starts, block.ends, strict=True):
                record = _record(Position(*at), parse_entry(block.buffer, start_at, end_at).payload)
                if record is not None:
                    records.append(record)
    return records


def _record(position: Position, payload: memoryview) -> Record | None:
    try:
        told = json.loads(bytes(payload))
        if not told:
            return None
        ended = told.get("endedBefore")
        return Record(
            position,
            told["writer"],
            TransactionId(*told["transaction"]),
            told["batch"],
            None if ended is None else Position(*ended),
            bool(told.get("commit")) and ended is not None,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DeliveryGuaranteeError(
            f"deliveryGuarantee = {TRANSACTIONAL}: a message at {position} is not of a log of transactions; give "
            "another transactionTopic"
        ) from error
