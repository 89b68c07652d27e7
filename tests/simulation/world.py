"""The world around one broker: turns of its core, its storage, its connections, its clock, and its deaths."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from spark_pulsar.broker.broker import Broker
from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.invariants import check
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.broker.turn.events import (
    EntriesRead,
    Event,
    ReadFailed,
    RecordsDurable,
    Requested,
    SessionClosed,
    SessionOpened,
    SizesRead,
    WritingPaused,
    WritingResumed,
)
from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.storage import StorageError, StorageFailed
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import InactiveTopicPolicy
from spark_pulsar.storage import files
from tests.contract import memory_storage

from . import rules
from .actors import Client, Link
from .compaction import Work
from .comparing import check_quotas
from .disk import PowerLost
from .judge import Judge
from .profile import Profile
from .store import Store, make_store
from .witness import Witness

START_MS = 1_795_000_000_000


class World:
    """One broker, from its first start over all its deaths. Everything random comes from the seed."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.random = Random(profile.seed)
        self.now_ms = START_MS
        self.judge = Judge()
        _expect(self.judge, profile)
        self.clients = [Client(number, self.judge.sent) for number in range(profile.clients)]
        self.links: dict[int, Link] = {}
        self.reads: list[fx.ReadEntries | fx.ReadSizes] = []
        self.starts = 0
        self.told = Counter[str]()
        """Counts of answers to clients, over all starts."""
        self.turns = 0
        self.trace: list[Any] = []
        self._last_session = 0
        self._durable: list[int] = []
        """Groups of the core that storage reported and the core has not heard of."""
        self._failed = False
        self.store: Store = make_store(profile, self.random, lambda: self.now_ms / 1000)
        self.broker: Broker
        self.witness: Witness
        self.state: DurableState
        self.start()

    @property
    def core(self) -> Core:
        return self.broker.core

    def note(self, *what: Any) -> None:
        """A line of the story."""
        self.trace.append(what)

    # Life and death

    def start(self) -> None:
        """Opens the storage, as often as it takes, and starts a core on it."""
        sync = self.profile.sync
        synced = self.random.random() < 0.5 if sync == "changes" else sync == "always"
        for _ in range(5):
            try:
                self.state = self.store.open(self._on_storage_failed, sync_data=synced)
                break
            except (StorageError, OSError) as error:
                self.note("cannot open", type(error).__name__)
                self.store.heal()
            except PowerLost:
                self.note("power lost while opening")
                self.store.crash(self.random)
        else:
            raise AssertionError("the storage cannot be opened any more")
        may_lose, self.store.power_lost = self.store.power_lost and sync != "always", False
        survivors = self.judge.on_recovered(self.state, may_lose=may_lose)
        self.judge.is_synced = synced
        self.judge.uses.begin_life(self.now_ms)
        self.judge.transactions.start_clock(self.now_ms)
        self.judge.verify_content(self.store.storage, self.state)
        self.starts += 1
        self.note("started", self.starts, survivors, self.judge.on_disk)
        self._failed = False
        self._durable.clear()  # closing may have written what the life before had asked for
        self.compactions = Work(self.store.storage.read)
        self.broker = Broker(self.state, BrokerConfig(**self.profile.config), self.now_ms)
        self.witness = Witness(self.judge, self.core, self.told)
        self.judge.uses.inactivity.on_gone = self.witness.deleted
        self.turn([])

    def _on_storage_failed(self, _error: StorageFailed) -> None:
        self._failed = True

    def _forget_life(self) -> None:
        """Connections end, having brought to the clients some of what was under way."""
        for link in self.links.values():
            if link.client is not None:
                for _ in range(self.random.randint(0, len(link.downstream))):
                    if link.client is not None:
                        link.client.hear(link.downstream.popleft())
            if link.client is not None:
                link.client.leave()
        self.links.clear()
        self.reads.clear()
        self.compactions.stop()
        self._durable.clear()

    def crash(self, *, only_process: bool = False) -> None:
        """The process dies, or the power fails; another start."""
        self.note("crash")
        self._forget_life()
        self.store.crash(self.random, only_process=only_process)
        if self.profile.clock_goes_back and self.random.random() < 0.5:
            self.now_ms -= self.random.choice((1_000, 100_000_000))
        self.start()

    def restart(self) -> None:
        """Clean end and another start."""
        self.note("restart")
        self.core.force_lazy_records()
        try:
            self._handle([])
            self.store.close(self.state)
        except (StorageError, OSError):
            self._forget_life()
            self.store.crash(self.random)
            self.start()
        except PowerLost:
            self.crash()
        else:
            if not self._failed:
                self.judge.on_durable(self.judge.submitted)
                self.judge.past.make_firm()
            self._forget_life()
            self.start()

    def end(self) -> None:
        """The last clean end: nothing is left of ledgers that are gone."""
        self.core.force_lazy_records()
        self._handle([])
        self.store.close(self.state)
        left = self.store.kept_ledgers() - self.state.ledgers.keys()
        if left:
            raise AssertionError(f"ledgers {sorted(left)} are gone and take space (5.2)")

    # Turns

    def turn(self, events: list[Event]) -> None:
        """The core hears what happened, and its orders are carried out. Like its shell, the world leaves it alone when
        nothing happened and nothing is due."""
        self.turns += 1
        try:
            if events or self._is_due():
                self._handle(events)
            if self.store.storage.needs_checkpoint():
                self._checkpoint()
        except StorageFailed:
            self._failed = True
        except PowerLost:
            self.crash()
            return
        if self._failed:
            self.note("storage failed")
            self._forget_life()
            self.store.give_up(self.random)
            self.start()

    @property
    def is_busy(self) -> bool:
        """True when something is under way that needs no time."""
        deadline = self.core.next_deadline()
        under_way = any((link.upstream and link.is_read) or link.downstream for link in self.links.values())
        under_way |= deadline is not None and deadline <= self.core.now_ms
        return bool(under_way or self._durable or self.reads or self.store.is_busy or self.compactions.is_busy)

    def _is_due(self) -> bool:
        """True when the core has something to do without an event."""
        core = self.core
        if self._durable or core.effects or (core._records and core._lazy_since_ms is None):
            return True
        deadline = core.next_deadline()
        return deadline is not None and deadline <= max(self.now_ms, core.now_ms)

    def _handle(self, events: list[Event]) -> None:
        if self._durable:
            events = [*(RecordsDurable(group) for group in self._durable), *events]
            self._durable.clear()
        happened: list[Event] = []
        hear = self.witness.hear
        for event in events:
            happened.append(Requested(lambda _core, event=event: hear(event)))
            happened.append(event)
        self.judge.rules.turns = self.turns
        self.judge.note_time(max(self.now_ms, self.core.now_ms))
        effects = self.broker.handle(happened, self.now_ms)
        check(self.broker)
        self.witness.deliveries.takeovers.note()
        self.judge.uses.note(self.core)
        # The records of a turn are its last effect, but were made before anything was sent to consumers.
        numbers = [self.judge.on_submit(effect.records) for effect in effects if isinstance(effect, fx.AppendRecords)]
        for effect in effects:
            self._perform(effect, numbers)
        self.witness.end_turn()
        check_quotas(self.core, self.judge.current)
        self.judge.uses.check(self.core)
        if self.judge.transactions.is_on:
            self.judge.transactions.check_times()

    def _perform(self, effect: fx.Effect, numbers: list[int]) -> None:
        if isinstance(effect, fx.AppendRecords):
            self._submit(effect.records, effect.group, numbers.pop(0))
        elif isinstance(effect, fx.ReadEntries):
            self.note("reads", effect.token, effect.ledger_id, effect.entry_id)
            self.reads.append(effect)
        elif isinstance(effect, fx.ReadSizes):
            self.note("sizes", effect.token, effect.ledger_id, effect.first, effect.end)
            self.reads.append(effect)
        elif self.compactions.take(effect, self.random):
            self.note(type(effect).__name__, effect.token)
        else:
            self.witness.see(effect)
            self.note(*_line(effect))
            link = self.links.get(effect.session_id)
            if link is None:
                return
            if isinstance(effect, fx.PauseReading):
                link.is_read = False
            elif isinstance(effect, fx.ResumeReading):
                link.is_read = True
            elif link.client is not None:
                link.downstream.append(effect)

    def _submit(self, records: list[Record], group: int, number: int) -> None:
        self.note("submit", number, *(type(record).__name__ for record in records))
        self.judge.last_of_core = number

        def on_durable(_storage_group: int) -> None:
            self.judge.on_durable(number)
            self._durable.append(group)

        self.store.storage.submit(records, on_durable)

    def flush(self) -> None:
        """Nothing that the core did lies about unwritten."""
        self.core.force_lazy_records()
        self.turn([])

    def compare(self) -> None:
        """Compares the broker's state with the account, when nothing is left that was done and not yet told."""
        if not self.core._records:
            self.judge.compare(self.state)

    def _checkpoint(self) -> None:
        """Checkpoints as the engine does; records that storage itself applies go to the account too."""
        self.core.force_lazy_records()
        self._handle([])
        applied: list[Record] = []

        def listen(state: DurableState, record: Record) -> None:
            apply(state, record)
            applied.append(record)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "apply", listen)
            patch.setattr(memory_storage, "apply", listen)
            self.store.storage.checkpoint(self.state)
        self.note("checkpoint", *(type(record).__name__ for record in applied))
        if applied:
            self.judge.on_submit(applied)

    # The disk

    def write(self) -> None:
        """The journal works; the core hears of it now or with what happens next."""
        self._work(self.store.write)
        if self._durable and self.random.random() < 0.8:
            self.turn([])

    def settle(self) -> None:
        """The background works."""
        self._work(self.store.settle)

    def _work(self, work: Any) -> None:
        try:
            work(self.random)
        except PowerLost:
            self.crash()
            return
        if self._failed:
            self.turn([])

    def serve_reads(self, *, fail: bool = False) -> None:
        """Answers what the core wants to read, in any order."""
        if not self.reads:
            return
        reads, self.reads = self.reads, []
        self.random.shuffle(reads)
        events: list[Event] = []
        for read in reads:
            if fail:
                self.witness.note_read_failed()
                events.append(ReadFailed(read.token, "simulated"))
            elif isinstance(read, fx.ReadSizes):
                sizes = self.store.storage.sizes(read.ledger_id, read.first, read.end)
                events.append(SizesRead(read.token, sizes))
            else:
                what = read.ledger_id, read.entry_id, read.max_entries, read.max_bytes
                runs = self.store.storage.read_at_once(*what) or self.store.storage.read(*what)
                events.append(EntriesRead(read.token, runs))
        self.turn(events)

    def compact(self, *, fail: bool = False) -> None:
        """A compaction goes on, or fails to."""
        event = self.compactions.step(self.random, fail=fail)
        if event is not None:
            self.turn([event])

    # The network

    def connect(self, client: Client) -> None:
        """A new connection of a client that has none."""
        self._last_session += 1
        link = self.links[self._last_session] = Link(self._last_session, client)
        client.connect(link)
        self.turn([SessionOpened(link.session_id, "/10.0.0.1:1000", "127.0.0.1:6650")])

    def carry_up(self, link: Link) -> None:
        """Bytes arrive at the broker; after the last ones of a client that left, the end of the connection."""
        if link.session_id not in self.links:
            return
        events: list[Event] = []
        if link.upstream and link.is_read:
            events = link.arrive(self.random)
        if link.client is None and (not link.upstream or self.random.random() < 0.3):
            del self.links[link.session_id]
            events.append(SessionClosed(link.session_id))
        if events:
            self.note("arrive", link.session_id, *(type(event).__name__ for event in events))
            self.turn(events)

    def carry_down(self, link: Link, count: int | None = None) -> None:
        """Orders of the broker arrive at the client."""
        for _ in range(len(link.downstream) if count is None else min(count, len(link.downstream))):
            if link.client is None:
                return
            link.client.hear(link.downstream.popleft())

    def cut(self, link: Link) -> None:
        """Both sides lose the connection, and what was under way."""
        self.note("cut", link.session_id)
        if link.client is not None:
            link.client.leave()
        if self.links.pop(link.session_id, None) is not None:
            self.turn([SessionClosed(link.session_id)])

    def set_policy(self, topic: str | None, member: str, value: Any) -> None:
        """An administrator changes a policy."""
        self.note("policy", topic, member, value)
        ask = rules.change(topic, member, value)

        def request(core: Core) -> None:
            self.judge.rules.note_change()
            self.judge.post("policy_set", topic, member, value)
            ask(core)

        self.turn([Requested(request)])
        self.advance(2)  # what follows from a policy is looked at a moment later

    def socket(self, link: Link, *, writable: bool) -> None:
        """The peer reads slowly, or has read."""
        kind = WritingResumed if writable else WritingPaused
        self.turn([kind(link.session_id)])

    # Time

    def advance(self, ms: int) -> None:
        """Lets time pass."""
        self.now_ms += ms
        self.turn([])


def _expect(judge: Judge, profile: Profile) -> None:
    """Tells the judge what a history's configuration makes of the broker."""
    judge.rules.defaults[policy_table.DEDUPLICATION] = bool(profile.config.get("deduplication"))
    judge.transactions.is_on = "transactions" in profile.features
    judge.has_takeovers = "types" in profile.features
    judge.batch_index_acks = profile.config["batch_index_acks"]
    judge.uses.idleness.limit_ms = 60_000 * profile.config.get("subscription_expiration_minutes", 0)
    judge.compaction.keeps_unkeyed = profile.config.get("compaction_keeps_null_keys", False)
    if "inactivity" in profile.features:
        config = BrokerConfig(**profile.config)
        interval_ms = config.inactive_check_interval_ms
        max_s = config.inactive_max_s or interval_ms // 1000
        policy = InactiveTopicPolicy(config.delete_inactive_topics, max_s, config.inactive_mode)
        judge.rules.defaults[policy_table.INACTIVE_TOPIC] = policy.to_json()
        judge.uses.inactivity.is_on, judge.uses.inactivity.interval_ms = True, interval_ms


def _line(effect: fx.Effect) -> tuple[Any, ...]:
    """An order as a line of the story."""
    if isinstance(effect, fx.SendCommand):
        return ("command", effect.session_id, int(effect.command.type), effect.command.SerializeToString())
    if isinstance(effect, fx.SendMessages):
        return (
            "messages",
            effect.session_id,
            effect.consumer_id,
            effect.ledger_id,
            effect.first_entry_id,
            len(effect.starts),
            *(() if effect.entry_ids is None else (list(effect.entry_ids),)),
        )
    if isinstance(effect, fx.SendReceipts):
        return ("receipts", effect.session_id, effect.ledger_id, effect.first_entry_id, list(effect.sequence_ids))
    if isinstance(effect, fx.SendColumnarReceipts):
        return ("receipts", effect.session_id, list(effect.ledger_ids), list(effect.entry_ids))
    return (type(effect).__name__, getattr(effect, "session_id", 0))
