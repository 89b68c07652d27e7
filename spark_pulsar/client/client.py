"""The client as its users see it."""

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import Final, TypeVar

from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.pool import ConnectionPool
from spark_pulsar.client.connections.retry import LEAST_ATTEMPT_MS, Backoff
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import EndNotReached, NoListener, OperationTimeout, naming_topic
from spark_pulsar.client.lookup import (
    TopicDirectory,
    TopicMode,
    full_name,
    partition_count,
    partition_names,
    topics_of,
)
from spark_pulsar.client.publishing.entry_publisher import EntryPublisher
from spark_pulsar.client.publishing.publisher import (
    DEFAULT_PENDING_BYTES,
    DEFAULT_PENDING_ENTRIES,
    ProducerSettings,
    Publisher,
    Split,
)
from spark_pulsar.client.reader_types import SubscriptionType
from spark_pulsar.client.reading.attached_consumers import InitialPosition
from spark_pulsar.client.reading.cursor_states import CursorStates
from spark_pulsar.client.reading.cursors import Cursors
from spark_pulsar.client.reading.fetch import DEFAULT_QUEUED_BYTES, Fetch, ReaderSettings
from spark_pulsar.client.reading.position_probes import Probes
from spark_pulsar.client.reading.positions import after_entry
from spark_pulsar.client.schema_requests import RegisteredSchema, get_or_create_schema, get_schema
from spark_pulsar.client.transactions import COORDINATORS, Transactions
from spark_pulsar.model.errors import ConsumerBusy, PulsarError, TopicNotFound
from spark_pulsar.model.fingerprints import Fingerprint
from spark_pulsar.model.positions.ids import MessageId, Position, TransactionId
from spark_pulsar.model.schemas import Schema
from spark_pulsar.wire.entries.entry_blocks import message_count_of

from .connections.pipelined_requests import PipelinedRequest, if_any, run_all, run_one, settled

_BUSY_PATIENCE_MS: Final = 3_000
_ATTACHING: Final = 4
"""Times the wait for an entry that may pass until its reader is attached."""

Result = TypeVar("Result")


class Engine:
    """Connections, with the lookups and probes that use them; made on first use, and anew after a fork."""

    def __init__(self, config: ClientConfig) -> None:
        self.process = os.getpid()
        self.pool = ConnectionPool(config)
        self.directory = TopicDirectory(self.pool)
        self.probes = Probes(self.directory)
        self.cursors = Cursors(self.directory)
        self.cursor_states = CursorStates(self.directory)
        self.transactions = Transactions(self.directory)


class PulsarClient:
    """A blocking client for one Pulsar service; see the package's docstring for how it works.

    Opens nothing until it is used. Thread-safe. Pickles as its configuration; after a fork the child starts afresh. Use
    it as a context manager or `close` it.

    Topics may be given in short form; names in results are full. A parameter that is said to be "a partition" must be
    one (or a topic without partitions): `partitions_of` gives them. Nothing here creates a topic unless it says so.
    Positions are "next to read" (see `positions`). Every operation is over after `operation_timeout_ms`, retries
    included; all raise OperationTimeout, ConnectFailed, InvalidTopicName and the broker's errors, as classes of
    `model.errors`.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    def __reduce__(self) -> tuple[type["PulsarClient"], tuple[ClientConfig]]:
        return (PulsarClient, (self.config,))

    def __repr__(self) -> str:
        return f"PulsarClient({self.config!r})"

    def _running(self) -> Engine:
        engine = self._engine
        if engine is not None and engine.process == os.getpid():
            return engine
        if engine is not None:
            # A forked child: the parent's threads do not exist here and its locks may be held for ever.
            self._lock = threading.Lock()
            self._engine = None
        with self._lock:
            if self._engine is None:
                self._engine = Engine(self.config)
            return self._engine

    def _deadline(self, what: str, timeout_ms: int | None = None) -> Deadline:
        most_ms = self.config.operation_timeout_ms
        return Deadline(most_ms if timeout_ms is None else min(timeout_ms, most_ms), what, self.config.service_url)

    def _one(self, what: str, make: Callable[[Engine, Deadline], PipelinedRequest[Result]]) -> Result:
        engine, deadline = self._running(), self._deadline(what)
        return run_one(lambda: make(engine, deadline), deadline)

    def _by_topic(
        self,
        what: str,
        topics: Collection[str],
        make: Callable[[Engine, str, Deadline], PipelinedRequest[Result]],
        timeout_ms: int | None = None,
    ) -> dict[str, Result]:
        """Runs a pipelined request for each topic, all at once; the results under the names that the caller used."""
        engine = self._running()
        full = {topic: full_name(topic) for topic in topics}
        deadlines: dict[str, Deadline] = {}

        def deadline_of(topic: str) -> Deadline:
            return deadlines.setdefault(topic, self._deadline(f"{what} {topic}", timeout_ms))

        results = run_all(full.values(), lambda topic: make(engine, topic, deadline_of(topic)), deadline_of)
        return {topic: results[name] for topic, name in full.items()}

    def check_listener(self, patience_ms: int) -> None:
        """Connects to the service. Raises NoListener when nothing listens at any of its addresses for `patience_ms`;
        what else goes wrong is left to the operations, which try again."""
        engine, deadline, backoff = self._running(), self._deadline("connecting", patience_ms), Backoff()
        while True:
            try:
                engine.pool.service(deadline)
                return
            except NoListener:
                if deadline.left_ms() < LEAST_ATTEMPT_MS + (pause_ms := backoff.next_ms()):
                    raise
                threading.Event().wait(pause_ms / 1000)
            except PulsarError as error:
                if isinstance(error.__cause__, NoListener):
                    raise error.__cause__ from None
                return

    # ---- topics

    def partition_count(self, topic: str, create: bool = False) -> int:
        """Returns the number of partitions of a topic; 0 = it is not partitioned.

        TopicNotFound when it does not exist, as far as the broker knows. With `create` the broker may create it.
        """
        name = full_name(topic)
        return self._one(
            f"requesting the partitions of {name}",
            lambda engine, deadline: partition_count(engine.pool, name, create, deadline),
        )

    def partitions_of(self, topic: str, create: bool = False) -> list[str]:
        """Returns the full names to read from or write to: of all partitions, or of the topic itself.

        TopicNotFound when it does not exist, as far as the broker knows. With `create` the broker may create it.
        """
        return partition_names(topic, self.partition_count(topic, create))

    def partitions_of_each(self, topics: Collection[str]) -> dict[str, list[str] | TopicNotFound]:
        """`partitions_of` each topic, all requested at once; the error in place of a topic that does not exist."""
        counts = self._by_topic(
            "requesting the partitions of",
            topics,
            lambda engine, topic, deadline: if_any(partition_count(engine.pool, topic, False, deadline)),
        )
        return {
            topic: count if isinstance(count, TopicNotFound) else partition_names(topic, count)
            for topic, count in counts.items()
        }

    def topics_of(self, namespace: str, mode: TopicMode = "persistent") -> list[str]:
        """Returns the topics of `tenant/namespace` as the broker lists them, each partition by itself; none if
        unknown."""
        return self._one(
            f"listing the topics of {namespace}",
            lambda engine, deadline: topics_of(engine.pool, namespace, mode, deadline),
        )

    def discard(self, topics: Collection[str]) -> None:
        """Discards partitions that are queried no more: the brokers that serve them, and the readers that queried
        them."""
        engine = self._running()
        for name in map(full_name, topics):
            engine.probes.discard(name)
            engine.directory.discard(name)

    def last_message_ids(self, topics: Collection[str]) -> dict[str, MessageId | None]:
        """Returns the id of the last message of each partition, None for an empty one.

        The batch index is that of the last message of a batch, -1 when the entry is no batch.
        """
        return self._by_topic(
            "requesting the last message id of",
            topics,
            lambda engine, topic, deadline: engine.probes.last_message_id(topic, deadline),
        )

    def last_message_id(self, topic: str) -> MessageId | None:
        """`last_message_ids` of one partition."""
        return self.last_message_ids([topic])[topic]

    def end_positions(self, topics: Collection[str]) -> dict[str, MessageId]:
        """Returns the position after the last message of each partition; the beginning (-1:-1) for an empty one
        (W4)."""
        return self._by_topic(
            "requesting the end of",
            topics,
            lambda engine, topic, deadline: engine.probes.end_position(topic, deadline),
        )

    def end_positions_of_each(
        self, topics: Collection[str], timeout_ms: int | None = None
    ) -> dict[str, MessageId | TopicNotFound]:
        """`end_positions`, the error in place of a partition that does not exist; over after `timeout_ms` if given."""
        return self._by_topic(
            "requesting the end of",
            topics,
            lambda engine, topic, deadline: if_any(engine.probes.end_position(topic, deadline)),
            timeout_ms,
        )

    def positions_at_time(self, topics: Collection[str], publish_time_ms: int) -> dict[str, MessageId]:
        """Returns the position of the first entry of each partition published at or after a time (ms since 1970).

        The end position if there is none, the beginning (-1:-1) for an empty partition. Relies on publish times that
        grow with the position, as the broker does.
        """
        return self._by_topic(
            f"searching for publish time {publish_time_ms} in",
            topics,
            lambda engine, topic, deadline: engine.probes.position_at_time(topic, publish_time_ms, deadline),
        )

    def position_at_time(self, topic: str, publish_time_ms: int) -> MessageId:
        """`positions_at_time` of one partition."""
        return self.positions_at_time([topic], publish_time_ms)[topic]

    # ---- schemas

    def schema_of(self, topic: str, version: bytes | None = None) -> RegisteredSchema | None:
        """Returns the schema of a topic, the last or the one with `version`; None when the registry has none.

        A topic that does not exist has none either. UnexpectedReply for one that is too large or of an unknown type.
        """
        name = full_name(topic)
        return self._one(
            f"requesting the schema of {name}",
            lambda engine, deadline: get_schema(engine.pool, name, version, deadline),
        )

    def schemas_of(self, topics: Collection[str]) -> dict[str, RegisteredSchema | None]:
        """`schema_of` each topic, the last ones, all requested at once."""
        return self._by_topic(
            "requesting the schema of",
            topics,
            lambda engine, topic, deadline: get_schema(engine.pool, topic, None, deadline),
        )

    def register_schema(self, topic: str, schema: Schema, name: str = "") -> bytes:
        """Returns the version of a schema of a topic, which gets it as its newest if no version is equal to it.

        The topic must exist (a partition, or a topic without). IncompatibleSchema when the schema may not follow those
        that are there, or the policies of the namespace let no client add one; TopicNotFound.
        """
        full = full_name(topic)
        return self._one(
            f"registering a schema of {full}",
            lambda engine, deadline: get_or_create_schema(engine.directory, full, name, schema, deadline),
        )

    def first_available(self, entries: Mapping[str, MessageId]) -> dict[str, MessageId | TopicNotFound]:
        """Returns, for an entry of each partition that had existed, whether it is still there; never known from an
        earlier call.

        If it is, the answer is no later than the entry. If it was trimmed, or the topic made again, the answer is the
        later position of the first entry that there is, or the end. The error in place of a topic that is gone.
        """
        wanted = {full_name(topic): entry for topic, entry in entries.items()}
        return self._by_topic(
            "searching for an entry of",
            list(entries),
            lambda engine, topic, deadline: if_any(engine.probes.first_available(topic, wanted[topic], deadline)),
        )

    def fingerprints(
        self, entries: Mapping[str, MessageId], timeout_ms: int | None = None
    ) -> dict[str, Fingerprint | TopicNotFound | None]:
        """Returns the fingerprint of an entry of each partition, or of the first one after it; None where none comes in
        `timeout_ms`, the error in place of a partition that does not exist."""
        wanted = {full_name(topic): entry for topic, entry in entries.items()}
        patience = self._deadline("waiting for an entry", timeout_ms)
        return self._by_topic(
            "reading an entry of",
            list(entries),
            lambda engine, topic, deadline: if_any(engine.probes.fingerprint(topic, wanted[topic], deadline, patience)),
        )

    def watch(self, positions: Mapping[str, MessageId], arrived: threading.Event, timeout_ms: int) -> None:
        """Has `arrived` set once there is an entry at or after the position of any partition, or its reader is lost.

        Costs a reader for each partition, on a connection that others share, which is sent one entry: the one that
        `end_positions` has there, if the partition ends where it was attached. The positions are those of
        `end_positions`, or later.
        """
        wanted = {full_name(topic): position for topic, position in positions.items()}
        self._by_topic(
            "watching",
            self._running().probes.unwatched(wanted, arrived),
            lambda engine, topic, deadline: engine.probes.watch(topic, wanted[topic], arrived, deadline),
            timeout_ms,
        )

    def silent_partitions(self, arrived: threading.Event) -> set[str]:
        """Returns the partitions, by full name, that `watch` watches for `arrived`, and where nothing has come since:
        `end_positions` would say what it said before."""
        return self._running().probes.silent(arrived)

    def lost_readers(self) -> set[str]:
        """Returns the partitions, by full name, whose reader for `end_positions` the broker closed, or was lost with
        its connection, since the last call."""
        return self._running().probes.lost_readers()

    # ---- reading and writing

    def fetch(
        self,
        topic: str,
        start: MessageId,
        end: MessageId | None = None,
        *,
        max_queued_bytes: int = DEFAULT_QUEUED_BYTES,
        max_queued_messages: int | None = None,
        idle_timeout_ms: int | None = None,
        arrived: threading.Event | None = None,
        read_compacted: bool = False,
        is_shared: bool = False,
    ) -> Fetch:
        """Reads a partition from `start` to `end` (exclusive; None = for ever) as blocks of raw entries; see `Fetch`.

        At most about `max_queued_bytes`, and `max_queued_messages`, wait to be taken. Without `end`, iteration stops
        when nothing came for `idle_timeout_ms` (None = never). Opens nothing until the first block is requested.
        `arrived` is set whenever there is something to take: with it one thread can follow several fetches (see
        `Fetch.poll`). With `read_compacted` it reads the compacted view as far as there is one, and may raise
        EndNotReached at its end. With `is_shared` it has no connection of its own: for many that read little.
        """
        engine = self._running()
        settings = ReaderSettings(max_queued_bytes, idle_timeout_ms, read_compacted, is_shared, max_queued_messages)
        return Fetch(self.config, engine.pool, engine.directory, full_name(topic), start, end, settings, arrived)

    def publisher(
        self,
        topic: str,
        *,
        name: str | None = None,
        max_pending_entries: int = DEFAULT_PENDING_ENTRIES,
        max_pending_bytes: int = DEFAULT_PENDING_BYTES,
        receipt_timeout_ms: int | None = None,
        schema: Schema | None = None,
        properties: Mapping[str, str] | None = None,
        deduplicated: bool = False,
        encrypted: bool = False,
        transaction: TransactionId | None = None,
        split: Split | None = None,
    ) -> Publisher:
        """Returns a producer on one partition, ready to send; see `Publisher`. The broker may create the topic.

        `name` is the producer's name; without one the broker makes one up. At most `max_pending_entries` entries of
        together `max_pending_bytes` may be without receipt; one entry always may. The next receipt may take
        `receipt_timeout_ms`, also when a lost broker must be found again (None: the operation's time-out). ProducerBusy
        when the name is taken. The topic gets `schema` as its newest if no version is equal to it, and each message
        names its version; IncompatibleSchema when it may not. `properties` are the producer's own, for its statistics.
        `deduplicated`: the publisher waits while ProducerBusy, and a sequence id that the broker has lost is an error;
        see `Publisher`. `encrypted` announces to the broker that payloads are, which a namespace may require. With
        `transaction` everything is sent in it; `add_partitions` comes first. `split` makes smaller entries of one that
        is above the topic's `maxMessageSize`, which ends the publisher without it.
        """
        settings = ProducerSettings(
            name,
            max_pending_entries,
            max_pending_bytes,
            receipt_timeout_ms,
            schema,
            properties,
            deduplicated,
            encrypted,
            transaction,
            split,
        )
        return Publisher(self.config, self._running().directory, full_name(topic), settings).open()

    def entry_publisher(self, topic: str, name: str, max_pending_bytes: int = DEFAULT_PENDING_BYTES) -> EntryPublisher:
        """Returns a producer of that name on one partition that sends entries as they are, none of them twice; see
        `EntryPublisher`. At most `max_pending_bytes` may be without receipt; one entry always may."""
        directory = self._running().directory
        return EntryPublisher(self.config, directory, full_name(topic), name, max_pending_bytes).open()

    # ---- transactions

    def coordinator_count(self) -> int:
        """Returns the number of transaction coordinators of the cluster, also of one whose transactions are off."""
        return self._one(
            "requesting the transaction coordinators",
            lambda engine, deadline: partition_count(engine.pool, COORDINATORS, False, deadline),
        )

    def open_transaction(self, coordinator: int, timeout_ms: int) -> TransactionId:
        """Opens a transaction, which the broker aborts when it has not ended after `timeout_ms`.

        NotAllowed where transactions are off. One whose answer is lost stays open until then, without a message.
        """
        return self._one(
            f"opening a transaction at coordinator {coordinator}",
            lambda engine, deadline: engine.transactions.open(coordinator, timeout_ms, deadline),
        )

    def add_partitions(self, transaction: TransactionId, partitions: Collection[str]) -> None:
        """Adds to a transaction, at its coordinator, the topic partitions that it is going to write to: where it ends.

        TransactionNotFound when it has ended, InvalidTransactionStatus when it is about to.
        """
        names = [full_name(partition) for partition in partitions]
        self._one(
            f"adding partitions to transaction {transaction}",
            lambda engine, deadline: engine.transactions.add_partitions(transaction, names, deadline),
        )

    def end_transaction(self, transaction: TransactionId, *, commit: bool) -> None:
        """Commits or aborts a transaction.

        TransactionNotFound when it has ended, InvalidTransactionStatus when it is about to end otherwise: one of them
        comes, too, when the first answer was lost and the request is made again.
        """
        self._one(
            f"{'committing' if commit else 'aborting'} transaction {transaction}",
            lambda engine, deadline: engine.transactions.end(transaction, commit=commit, deadline=deadline),
        )

    # ---- durable cursors

    def ensure_subscription(
        self,
        topics: Collection[str],
        subscription: str,
        initial: InitialPosition = "latest",
    ) -> None:
        """Creates a durable subscription at `initial` on each partition that lacks it. Nothing stays connected.

        Here and below: ConsumerBusy when another consumer is connected to the subscription, and stays so for a while.
        """
        self._on_cursors(
            "creating a subscription on",
            topics,
            lambda engine, topic, deadline: engine.cursors.ensure(topic, subscription, initial, deadline),
        )

    def subscriptions_exist(self, topics: Collection[str], subscription: str) -> dict[str, bool | TopicNotFound | None]:
        """Returns whether each partition has a durable subscription of that name, which is not made; None where the
        broker does not say, the error in place of a partition that does not exist."""
        return self._by_topic(
            "searching for a subscription of",
            topics,
            lambda engine, topic, deadline: if_any(engine.cursors.exists(topic, subscription, deadline)),
        )

    def cursor_positions(
        self,
        topics: Collection[str],
        subscription: str,
        initial: InitialPosition = "latest",
    ) -> dict[str, MessageId]:
        """Returns the position after the messages acknowledged without a gap, of each partition (whole entries only).

        The protocol has no query without a subscription, so a missing subscription is created at `initial`.
        """
        return self._on_cursors(
            "requesting a cursor on",
            topics,
            lambda engine, topic, deadline: engine.cursors.position(topic, subscription, initial, deadline),
        )

    def advance_cursors(
        self,
        positions: Mapping[str, MessageId],
        subscription: str,
    ) -> None:
        """Moves the durable cursor of each partition forward, so that the given position is next to read.

        Everything before it is acknowledged, also inside a batch (exactly, where the broker supports that; the whole
        batch stays unacknowledged elsewhere). A cursor never moves backwards by this. Nothing is delivered, no
        redelivery is counted. A missing subscription is created first, at the earliest message.
        """
        sizes = {topic: self._batch_size(topic, at) for topic, at in positions.items() if at.batch_index > 0}
        wanted = {full_name(topic): (at, sizes.get(topic, 0)) for topic, at in positions.items()}
        self._on_cursors(
            "moving a cursor on",
            list(positions),
            lambda engine, topic, deadline: engine.cursors.advance(topic, subscription, *wanted[topic], deadline),
        )

    def partly_acknowledged(self, topic: str, subscription: str, last: Position) -> dict[Position, int]:
        """Returns the batches of which a part is acknowledged, up to `last`, the last entry of a partition that is not,
        with their other messages as bits. The backlog is sent once, and nothing of it acknowledged; ConsumerBusy where
        a consumer is connected."""
        name = full_name(topic)
        return self._running().cursor_states.parts(
            name, subscription, last, self._deadline(f"reading subscription {subscription} of {name}")
        )

    def acknowledge_entries(
        self,
        topic: str,
        subscription: str,
        subscription_type: SubscriptionType,
        through: Position | None,
        entries: Iterable[Position] = (),
        parts: Mapping[Position, int] | None = None,
    ) -> None:
        """Acknowledges entries of a partition that no consumer has received: all through a position, single ones, and
        parts of batches, whose bits are the messages that stay. A missing subscription is created at the earliest
        message."""
        name = full_name(topic)
        what = f"acknowledging entries of subscription {subscription} of {name}"
        self._running().cursor_states.acknowledge(
            name, subscription, subscription_type, through, entries, parts or {}, lambda: self._deadline(what)
        )

    def _batch_size(self, topic: str, position: MessageId) -> int:
        """Counts the messages of the entry at a position; 0 when it is no longer there."""
        entry = position._replace(batch_index=-1)
        with self.fetch(topic, entry, after_entry(entry), max_queued_bytes=1) as fetch:
            try:
                return sum(message_count_of(block, 0) for block in fetch)
            except (EndNotReached, TopicNotFound):
                return 0

    def unsubscribe(
        self,
        topics: Collection[str],
        subscription: str,
        force: bool = False,
    ) -> None:
        """Deletes a durable subscription from each partition; one that does not exist is no error.

        MetadataError when others are connected to it, unless `force` (which older brokers do not know).
        """
        self._on_cursors(
            "unsubscribing from",
            topics,
            lambda engine, topic, deadline: engine.cursors.unsubscribe(topic, subscription, force, deadline),
        )

    def _on_cursors(
        self, what: str, topics: Collection[str], make: Callable[[Engine, str, Deadline], PipelinedRequest[Result]]
    ) -> dict[str, Result]:
        """Runs requests as `_by_topic`, and waits a little for another process that is leaving the same subscription.

        That one partition refuses keeps none of the others waiting: it is raised when all have had their turn.
        """
        patience = self._deadline(what).at_most(_BUSY_PATIENCE_MS, what, self.config.service_url)
        backoff = Backoff()
        results: dict[str, Result] = {}
        todo = list(topics)
        while True:
            answers = self._by_topic(what, todo, lambda engine, topic, deadline: settled(make(engine, topic, deadline)))
            results.update({topic: answer for topic, answer in answers.items() if not isinstance(answer, PulsarError)})
            refusals = [naming_topic(a, topic) for topic, a in answers.items() if isinstance(a, PulsarError)]
            if not refusals:
                return {topic: results[topic] for topic in topics}
            todo = [topic for topic, answer in answers.items() if isinstance(answer, ConsumerBusy)]
            if len(todo) < len(refusals):
                raise next(error for error in refusals if not isinstance(error, ConsumerBusy))
            try:
                backoff.pause(patience, refusals[0])
            except OperationTimeout:
                raise refusals[0] from None

    # ---- the end

    def close(self) -> None:
        """Closes all connections; fetches and publishers of this client fail from now on. Idempotent.

        The client can be used again afterwards and then connects anew.
        """
        engine, self._engine = self._engine, None
        if engine is not None and engine.process == os.getpid():
            engine.pool.close()

    def __enter__(self) -> "PulsarClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
