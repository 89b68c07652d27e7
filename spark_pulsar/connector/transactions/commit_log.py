"""The log of a query's transactions: which micro-batch was committed last, in a topic of its own (TXN-2).

A driver that dies around its commit leaves a query that does not know whether its last micro-batch was committed, and
perhaps a transaction that is still open, or just about to be committed. So the first task of each micro-batch

- publishes a note of its transaction, in no transaction;
- ends the transactions noted before: aborts each one of which no commit can be read. A run that has noted a transaction
  later decides about the earlier one, so that of two that run the same micro-batch one at most commits;
- then reads which micro-batch was committed last. If it is this one, the rows are there: the driver aborts;
- else publishes that it has got so far, for a later attempt of the task, which cannot read on;
- and publishes the commit of this one, in the transaction, so that it can be read exactly if that is committed.

Just before it commits, the driver publishes in the transaction, too, how many rows of which content the micro-batch
has, and those before it: one that is committed already, and was planned anew since, is noticed (TXN-9).

A durable subscription keeps the notes that are still to be read; it stands at the last commit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.retry import Backoff
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.publishing.publisher import Publisher
from spark_pulsar.connector.effectively_once.log_topics import log_subscription, log_topic, messages_from
from spark_pulsar.connector.effectively_once.outcomes import Totals
from spark_pulsar.connector.effectively_once.producer_roster import PRODUCERS
from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.options.options import TRANSACTIONAL, Options
from spark_pulsar.connector.options.timeouts import naming
from spark_pulsar.connector.transactions.results import LogPlace, TaskResult
from spark_pulsar.connector.transactions.transaction import (
    ENDED,
    LOG,
    abort,
    add_partitions,
    commit,
    has_ended,
)
from spark_pulsar.model.errors import ServiceNotReady
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import MessageId, Position, TransactionId
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

if TYPE_CHECKING:
    from spark_pulsar.connector.effectively_once.attempt import TaskAttempt

PREFIX: Final = "__spark_pulsar_transactions-"
"""Begin of the local name of a log's topic, which topic lists and patterns leave out."""
MOST_TOTALS: Final = 32
"""Micro-batches whose totals are kept."""
_ADVANCE_AFTER: Final = 64
"""Records behind which the subscription may stay."""


class Record(NamedTuple):
    """One message of the log: a note of a transaction, its commit, or the totals of micro-batches."""

    position: Position
    writer: str
    transaction: TransactionId
    batch_id: int
    ended_before: Position | None
    """Transactions noted before this position have ended. None of the first notes of a transaction."""
    is_commit: bool
    totals: tuple[Totals, ...] = ()
    """Totals of the micro-batch and some before it; only in the message that the driver publishes."""


class CommitLog:
    """The log of one query, as an attempt of the first task of a micro-batch uses it."""

    def __init__(self, client: PulsarClient, options: Options, attempt: TaskAttempt) -> None:
        assert attempt.transaction is not None
        self._client = client
        self._attempt = attempt
        self._transaction = attempt.transaction
        self._subscription = log_subscription(options, attempt.writer)
        self.place = LogPlace(
            client.partitions_of(log_topic(options, PREFIX, attempt.writer), create=True)[0], attempt.writer
        )
        self._deadline = Deadline(
            options.operation_timeout_ms,
            f"waiting for earlier transactions of {attempt.writer} to end, on {self.place.partition}",
            options.service_url,
        )
        self._backoff = Backoff()
        self.history: tuple[Totals, ...] = ()
        """Totals of the micro-batches that were committed last, oldest first, once the micro-batch is claimed."""

    @naming("operationTimeoutMs")
    def claim(self) -> bool:
        """Ends the query's earlier transactions and notes the commit of this one; false if the micro-batch is committed
        already (TXN-2, TXN-3). Raises DeliveryGuaranteeError when the log was lost."""
        partition, writer = self.place.partition, self.place.writer
        with self._client.publisher(partition) as notes:
            start = self._client.cursor_positions([partition], self._subscription, "earliest")[partition]
            records = self._read_on(notes, start)
            self.history = _history(records, writer)
            own = [record for record in records if record.transaction == self._transaction]
            if all(record.ended_before is None for record in own):
                if self._last_commit(records, start) >= self._attempt.batch_id:
                    return False
                notes.send(MessageMetadata(), self._record_bytes(ended_before=own[0].position))
        add_partitions(self._client, self._transaction, [partition])
        with self._client.publisher(partition, transaction=self._transaction) as commit:
            commit.send(MessageMetadata(), self._record_bytes(ended_before=own[0].position, is_commit=True))
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
                    "by TTL or an admin, so that it is not known whether this micro-batch was written. Search for it, "
                    "then delete that topic to have it written"
                )
            return -1
        if len(records) > _ADVANCE_AFTER:
            at = MessageId(*commits[-1].position, TopicName.parse(partition).partition)
            self._client.advance_cursors({partition: at}, self._subscription)
        return commits[-1].batch_id

    def _read_on(self, notes: Publisher, start: MessageId) -> list[Record]:
        """Notes the transaction, and returns the records up to there, when those noted before have ended."""
        ended: set[TransactionId] = set()
        at = self._noted(notes)
        while True:
            records = read_records(self._client, self.place.partition, start)
            if any(one.transaction == self._transaction and one.ended_before is not None for one in records):
                return records  # an earlier attempt has got so far, and its records hide the rest
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
        notes.send(MessageMetadata(), self._record_bytes(ended_before=None))
        notes.flush()
        assert notes.last_message_id is not None
        return notes.last_message_id.position

    def _record_bytes(self, ended_before: Position | None, *, is_commit: bool = False) -> bytes:
        fields = {
            "writer": self._attempt.writer,
            "transaction": list(self._transaction),
            "batch": self._attempt.batch_id,
            **({} if ended_before is None else {"endedBefore": list(ended_before)}),
            **({"commit": True} if is_commit else {}),
        }
        return json.dumps(fields).encode()

    def _noted_before(self, records: list[Record]) -> list[TransactionId]:
        """Returns the query's transactions that were noted before this one and may be open."""
        noted: dict[TransactionId, Position] = {}
        for record in records:
            if record.writer != self._attempt.writer or record.totals:
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


def note_totals(
    client: PulsarClient, place: LogPlace, transaction: TransactionId, history: Sequence[Totals], totals: Totals
) -> None:
    """Publishes the totals of a micro-batch in its transaction. Raises `ENDED` of transactions when it has ended."""
    client.add_partitions(transaction, [place.partition])
    kept = [one for one in history if one.batch_id != totals.batch_id][1 - MOST_TOTALS :]
    record = {
        "writer": place.writer,
        "transaction": list(transaction),
        "batch": totals.batch_id,
        "totals": [list(one) for one in (*kept, totals)],
    }
    with client.publisher(place.partition, transaction=transaction) as publisher:
        publisher.send(MessageMetadata(), json.dumps(record).encode())


def _history(records: Sequence[Record], writer: str) -> tuple[Totals, ...]:
    """Returns the totals of the micro-batches that were committed last, oldest first."""
    totals = [record.totals for record in records if record.writer == writer and record.totals]
    return totals[-1] if totals else ()


def is_committed(client: PulsarClient, options: Options, place: LogPlace, transaction: TransactionId) -> bool:
    """Returns whether a transaction that has ended was committed, or is just being committed."""
    deadline = Deadline(options.operation_timeout_ms, f"searching for the commit of {transaction}", place.partition)
    subscription = log_subscription(options, place.writer)
    start = client.cursor_positions([place.partition], subscription, "earliest")[place.partition]
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
    """Returns whether a later transaction has searched for the commit of this one in vain."""
    noted = next((one.position for one in records if one.transaction == transaction), None)
    return noted is not None and any(one.ended_before is not None and one.ended_before > noted for one in records)


def read_records(client: PulsarClient, partition: str, start: MessageId) -> list[Record]:
    """Returns the records from a position on, as far as they can be read. Raises DeliveryGuaranteeError for a message
    that is none."""
    records = []
    for position, payload in messages_from(client, partition, start):
        record = _record(position, payload)
        if record is not None:
            records.append(record)
    return records


def _record(position: Position, payload: bytes) -> Record | None:
    try:
        fields = json.loads(payload)
        if not fields or PRODUCERS in fields:
            return None
        ended = fields.get("endedBefore")
        return Record(
            position,
            fields["writer"],
            TransactionId(*fields["transaction"]),
            fields["batch"],
            None if ended is None else Position(*ended),
            bool(fields.get("commit")) and ended is not None,
            tuple(Totals(*one) for one in fields.get("totals", ())),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DeliveryGuaranteeError(
            f"deliveryGuarantee = {TRANSACTIONAL}: a message at {position} is not of a log of transactions; give "
            "another transactionTopic"
        ) from error


# ---- the end of a write, at the driver --------------------------------------------------------------------------


def commit_written(client: PulsarClient, options: Options, results: Sequence[TaskResult]) -> None:
    """Commits the transaction of a write, or aborts it if an earlier run has committed the micro-batch (TXN-1).

    Raises DeliveryGuaranteeError when the transaction has ended otherwise, and nothing is committed; and when the
    micro-batch is committed with other rows.
    """
    if not results:
        raise DeliveryGuaranteeError(f"deliveryGuarantee = {TRANSACTIONAL}: no task has reported its transaction")
    transaction = results[0].transaction
    claim = next((result for result in results if result.log is not None), None)
    totals = _totals(results)
    if any(result.was_committed for result in results):
        LOG.info("an earlier run has committed this micro-batch: what was written again is aborted")
        abort(client, transaction)
        _check_same(claim, totals, is_vouched=options.repeatable_row_order)
        return
    place = None if claim is None else claim.log
    try:
        if claim is not None and place is not None and totals is not None:
            note_totals(client, place, transaction, claim.history, totals)
        commit(client, transaction)
    except ENDED as error:
        if place is None or not is_committed(client, options, place, transaction):
            raise has_ended(transaction, error) from error


def _totals(results: Sequence[TaskResult]) -> Totals | None:
    """Returns the totals of all tasks, None where one of them is not known."""
    outcomes = [result.outcome for result in results if result.outcome is not None]
    if len(outcomes) < len(results):
        return None
    content = sum(outcome.content for outcome in outcomes) % (1 << 64)
    return Totals(outcomes[0].attempt.batch_id, sum(outcome.rows for outcome in outcomes), content)


def _check_same(claim: TaskResult | None, totals: Totals | None, *, is_vouched: bool) -> None:
    """Compares a micro-batch that is committed with the one that ran again. Raises DeliveryGuaranteeError where they
    differ, or cannot be compared."""
    committed = None
    if claim is not None and totals is not None:
        committed = next((one for one in claim.history if one.batch_id == totals.batch_id), None)
    number = "this micro-batch" if totals is None else f"micro-batch {totals.batch_id}"
    if totals is None or committed is None:
        why = f"{number} was committed by an earlier run, and its totals are not known"
        if is_vouched:
            LOG.warning("%s: its rows are taken for the same (repeatableRowOrder)", why)
            return
        raise DeliveryGuaranteeError(
            f"deliveryGuarantee = {TRANSACTIONAL}: {why}: it is older than the log, or an earlier version of "
            "spark-pulsar wrote it. Restore the newest checkpoint; or set repeatableRowOrder to true for one run if "
            "its rows are the same"
        )
    if totals == committed or (is_vouched and totals.rows == committed.rows):
        return
    now = f"has {totals.rows} rows now" if totals.rows != committed.rows else "has other rows now"
    raise DeliveryGuaranteeError(
        f"deliveryGuarantee = {TRANSACTIONAL}: {number} is committed with {committed.rows} rows, and {now}: it was "
        "planned anew, as from a checkpoint that lost its newest files; or its rows change each time they are "
        "computed; or two writes inside foreachBatch have one producerName. Nothing of it was written again. Restore "
        "the newest checkpoint; begin with a new one, which writes rows again; or set repeatableRowOrder to true if "
        "only content that does not matter changes"
    )


def abort_written(client: PulsarClient, results: Sequence[TaskResult]) -> None:
    """Aborts the transaction of a write that failed, if a task has reported which it was (TXN-3)."""
    for transaction in {result.transaction for result in results}:
        abort(client, transaction)
