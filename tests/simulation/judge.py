"""The judge: turns the records that the core makes into postings, and says whether each of them may be.

It also keeps a second `DurableState`, to which the records of every submit on disk are applied: what a storage gives
back after a crash must equal it after some whole number of further submits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.cursors import records as cr
from spark_pulsar.ledger.state.deduplication import SequencesForgotten
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.ledgers import EntriesDropped, LedgerOpened, LedgerSealed, LedgersTrimmed
from spark_pulsar.ledger.state.topics import (
    PartitionedTopicDeleted,
    PartitionedTopicSet,
    TopicCreated,
    TopicDeleted,
    TopicTerminated,
)
from tests.contract.histories import shared_picture as picture

from .account import Account, Place, Posting, Sent
from .compaction import CompactionJudge, verify
from .comparing import Violation, compare, difference
from .leaders import Leaders
from .orders import Beginnings, Expiring, Seek
from .past import Past, Submit
from .rules import Rules
from .schemas import Schemas
from .transaction_judge import TransactionJudge
from .uses import Uses

if TYPE_CHECKING:
    from spark_pulsar.ledger.storage import Storage


class Judge:
    """Keeps the accounts and judges every record."""

    def __init__(self) -> None:
        self.current = Account()
        self.durable = Account()
        self.shadow = DurableState()
        self.past = Past()
        self.is_synced = True
        """True when records that storage reports on disk survive a power loss."""
        self.submits: deque[Submit] = deque()
        """Handed to storage, not known to be on disk."""
        self.submitted = 0
        self.on_disk = 0
        """Counts of submits that were handed over, and that storage reported."""
        self.sent: dict[bytes, Sent] = {}
        """Every entry that a client ever sent, by its bytes, which are unique."""
        self.beginnings = Beginnings()
        self.seeks: dict[tuple[str, str], deque[Seek]] = {}
        """Moves that were asked for and not made, in order."""
        self.created_in: dict[tuple[str, str], int] = {}
        """The submit that a subscription was created in last."""
        self.unsubscribing: set[tuple[str, str]] = set()
        self.deleting: set[str] = set()
        """Topics whose deletion was requested in this turn."""
        self.terminating: set[str] = set()
        """Topics whose termination was requested in this turn."""
        self.expiring: list[Expiring] = []
        self.last_of_core = 0
        """The last submit that the core asked for."""
        self.now_ms = self.latest_ms = 0
        """The core's time, and the latest that any core ever had: clocks may be set back over a crash."""
        self.rules = Rules(lambda: self.current, lambda: self.now_ms)
        self.has_takeovers = False
        """True when there may be Failover subscriptions."""
        self.batch_index_acks = False
        self.compaction = CompactionJudge(self)
        self.uses = Uses(self)
        self.schemas = Schemas(self)
        self.leaders = Leaders(self)
        self.transactions = TransactionJudge(self)
        self.checks_of_stored: list[Callable[[Sent], None]] = [self.leaders.check_stored]
        self._unsubmitted: list[Posting] = []
        self._judged = 0
        """Records of the next submit that are judged already."""
        self._on: dict[type[Record], Callable[[Any], None]] = {
            EntriesAppended: self._entries_appended,
            TopicCreated: lambda record: self.post("topic_created", record.topic_id, record.name),
            TopicDeleted: self._topic_deleted,
            TopicTerminated: self._topic_terminated,
            SequencesForgotten: self._sequences_forgotten,
            PartitionedTopicSet: lambda record: self.post("partitioned", record.name, record.partitions),
            PartitionedTopicDeleted: self._partitioned_deleted,
            LedgerOpened: lambda record: self.post(
                "ledger_opened", record.topic_id, record.ledger_id, record.opened_ms
            ),
            LedgerSealed: self._ledger_sealed,
            LedgersTrimmed: self._ledgers_trimmed,
            EntriesDropped: self._entries_dropped,
            cr.CursorCreated: self._cursor_created,
            cr.CursorDeleted: self._cursor_deleted,
            cr.CursorAcked: self._cursor_acked,
            cr.CursorMarkDeleted: self._cursor_mark_deleted,
            cr.CursorReset: self._cursor_reset,
            **self.compaction.handlers,
            **self.schemas.handlers,
            **self.transactions.handlers,
        }

    # Postings and submits

    def post(self, *posting: Any) -> None:
        """Changes the live account now, the durable one when the next submit is on disk."""
        self.current.post(posting)
        self._unsubmitted.append(posting)

    def on_submit(self, records: Sequence[Record]) -> int:
        """Records go to storage; the number of the submit, from 1."""
        self._judge_records(records[self._judged :])
        self._judged = 0
        if self.transactions.is_on:
            self.transactions.check_heard()
        self.submitted += 1
        self.submits.append(Submit(records, self._unsubmitted))
        self._unsubmitted = []
        return self.submitted

    def catch_up(self, records: Sequence[Record]) -> None:
        """Judges the records that the core has made up to now and not yet submitted, so that the account says what is
        true before the next event. Only transactions need that."""
        if self.transactions.is_on:
            self._judge_records(records[self._judged :])
            self._judged = len(records)
            self.transactions.check_heard()

    def _judge_records(self, records: Sequence[Record]) -> None:
        self.uses.inactivity.begin_submit(records, TopicDeleted)
        for record in records:
            judge = self._on.get(type(record))
            if judge is not None:
                judge(record)

    def on_durable(self, number: int) -> None:
        """Storage says that submits up to this one are on disk."""
        while self.on_disk < number:
            self._settle(self.submits.popleft())
        if self.is_synced:
            self.past.make_firm()

    def _settle(self, submit: Submit) -> None:
        submit.settle(self.shadow, self.durable)
        self.past.add(submit)
        self.on_disk += 1

    def on_recovered(self, state: DurableState, *, may_lose: bool = False) -> int:
        """Storage was opened again after whatever happened: how many submits survived that were not reported.
        `may_lose`: the power was lost, and not all that was reported was synced."""
        found = picture(state)
        survivors = 0
        if may_lose and picture(self.shadow) != found:
            earlier = self.past.go_back(found)
            if earlier is not None:
                self._go_back(*earlier)
        while picture(self.shadow) != found:
            if not self.submits:
                raise Violation(
                    "what storage recovered is no state after a whole number of submits, or lacks one that was "
                    f"reported on disk; {survivors} later ones were tried:\n{difference(picture(self.shadow), found)}"
                )
            self._settle(self.submits.popleft())
            survivors += 1
        self.shadow.finish_recovery()
        self.past.note_start()
        self.submits.clear()
        self.submitted = self.on_disk
        self._unsubmitted.clear()
        self._judged = 0
        self.current = self.durable.copy()
        self.seeks.clear()
        self.unsubscribing.clear()
        self.expiring.clear()
        self.deleting.clear()
        self.last_of_core = self.on_disk
        self.leaders.begin_life()
        self.schemas.begin_life()
        self.transactions.begin_life()
        self.compare(state)
        return survivors

    def _go_back(self, shadow: DurableState, account: Account) -> None:
        """The newest part of what was reported is lost. Producers do not send again what they have a receipt for."""
        account.ever |= self.durable.ever
        heads = dict(self.durable.past_heads)
        heads.update((name, topic.heads) for name, topic in self.durable.topics.items())
        for name, known in heads.items():
            topic = account.topics.get(name)
            before = account.past_heads.get(name, {}) if topic is None else topic.heads
            merged = {each: max(known.get(each, -1), before.get(each, -1)) for each in {**known, **before}}
            if topic is None:
                account.past_heads[name] = merged
            else:
                topic.heads = merged
        self.rules.note_change()
        self.shadow, self.durable = shadow, account
        self.created_in.clear()
        self.leaders.forget_epochs()
        self.transactions.forget_ids()

    def note_time(self, now_ms: int) -> None:
        """A turn of the core begins."""
        self.now_ms = now_ms
        self.latest_ms = max(self.latest_ms, now_ms)

    # Records

    def _entries_appended(self, record: EntriesAppended) -> None:
        for run in record.entries.runs():
            if self.compaction.takes(run):
                continue
            for entry_id in range(run.first_entry_id, run.end_entry_id):
                self._stored((run.ledger_id, entry_id), run.entry(entry_id))

    def _stored(self, place: Place, entry: bytes) -> None:
        sent = self.sent.get(entry) or self.transactions.marker(place, entry)
        if sent is None:
            raise Violation(f"{place}: nobody sent what is stored there")
        topic = self.current.topics[sent.topic]
        if self.current.ledger_topics.get(place[0]) != sent.topic:
            raise Violation(f"{sent!r} of {sent.topic} is stored in another topic's ledger {place[0]}")
        if topic.log and place <= next(reversed(topic.log)):
            raise Violation(f"{place} does not come after {next(reversed(topic.log))} (ML-1)")
        if topic.is_terminated:
            raise Violation(f"{sent!r} is stored, and {sent.topic} has ended (TN-13)")
        if sent.is_marker:
            self.transactions.marker_stored(place, sent)
            return
        for check in self.checks_of_stored:
            check(sent)
        head = topic.heads.get(sent.producer, -1)
        is_lacking = sent.number > head + 1 and not self.transactions.may_lack(sent, head)
        if is_lacking and sent.owner not in self.rules.refused:
            raise Violation(f"{sent!r} is stored after {sent.producer}#{head}: order of the producer (PR-9)")
        deduplicates = self.rules.deduplicates(sent.topic)
        if deduplicates and (sent.producer, sent.number) in topic.stored:
            raise Violation(f"{sent!r} is stored twice with de-duplication (DED-2)")
        self.post("stored", place, sent, deduplicates)
        self.transactions.stored(place, sent)

    def _ledger_sealed(self, record: LedgerSealed) -> None:
        self.post("ledger_sealed", record.ledger_id, record.sealed_ms)

    def _ledgers_trimmed(self, record: LedgersTrimmed) -> None:
        name = self.current.topic_names[record.topic_id]
        topic = self.current.topics[name]
        self.transactions.trimmed(name, record.ledger_ids)
        for ledger_id in record.ledger_ids:
            info = topic.ledgers[ledger_id]
            self._check_unprotected(name, ledger_id, [place for place in topic.log if place[0] == ledger_id])
            if info.sealed_ms is None and not self.is_deleting(name):
                raise Violation(f"ledger {ledger_id} of {name} was trimmed while it was open (5.2)")
            self.post("gone", ledger_id, None)

    def _entries_dropped(self, record: EntriesDropped) -> None:
        name = self.current.topic_names[record.topic_id]
        ledger_id, before = record.ledger_id, record.first_entry_id
        topic = self.current.topics[name]
        places = [place for place in topic.log if place[0] == ledger_id and place[1] < before]
        self._check_unprotected(name, ledger_id, places)
        self.post("gone", ledger_id, before)

    def _check_unprotected(self, name: str, ledger_id: int, places: list[Place]) -> None:
        topic = self.current.topics[name]
        if self.is_deleting(name) or not places:
            return
        self.compaction.check_protected(name, places)
        for subscription, each in topic.subscriptions.items():
            wanted = [place for place in places if place not in each.acked]
            if wanted:
                raise Violation(f"{name}: {wanted} are given up, but {subscription} has not acked them (5.2)")
        if self.rules.retains(name, ledger_id, topic):
            raise Violation(f"{name}: ledger {ledger_id} is given up inside its retention (RET-1)")

    def is_deleting(self, topic: str) -> bool:
        """Tells whether the topic is being deleted."""
        return topic in self.deleting or self.uses.inactivity.goes(topic)

    def _topic_deleted(self, record: TopicDeleted) -> None:
        name = self.current.topic_names[record.topic_id]
        if not self.is_deleting(name):
            raise Violation(f"{name} goes without a request")
        if name not in self.deleting:
            self.uses.inactivity.gone(name)
        self.post("topic_deleted", record.topic_id)

    def _topic_terminated(self, record: TopicTerminated) -> None:
        name = self.current.topic_names[record.topic_id]
        if name not in self.terminating:
            raise Violation(f"{name} ends without a request (TN-13)")
        self.post("terminated", name)

    def _sequences_forgotten(self, record: SequencesForgotten) -> None:
        name = self.current.topic_names[record.topic_id]
        if record.producers:
            self.uses.silence.check_away(name, record.producers)
        elif self.rules.deduplicates(name):
            raise Violation(f"what producers of {name} sent is forgotten, and it de-duplicates (DED-1)")
        self.post("sequences_forgotten", name, record.producers)

    def _partitioned_deleted(self, record: PartitionedTopicDeleted) -> None:
        if not self.is_deleting(record.name):
            raise Violation(f"{record.name} goes without a request")
        self.post("partitioned", record.name, None)

    def forget_policies(self, topic: str) -> None:
        """A topic's own policies go with it."""
        if any(each == topic for each, _ in self.current.policies):
            self.rules.note_change()
            self.post("policies_forgotten", topic)

    def _cursor_created(self, record: cr.CursorCreated) -> None:
        name = self.current.topic_names[record.topic_id]
        mark = (record.ledger_id, record.entry_id)
        self.beginnings.check(name, record.name, mark, self.current.topics[name].log)
        self.created_in[name, record.name] = self.submitted + 1
        self.post("subscribed", record.cursor_id, record.topic_id, record.name, mark)
        self.uses.idleness.created((name, record.name))

    def _cursor_deleted(self, record: cr.CursorDeleted) -> None:
        key = self.current.cursors[record.cursor_id]
        if key not in self.unsubscribing and not self.is_deleting(key[0]) and not self.uses.idleness.may_go(key):
            raise Violation(f"the subscription {key[1]} of {key[0]} goes without a request")
        for seek in self.seeks.pop(key, ()):
            seek.is_moot = True
        self.post("unsubscribed", record.cursor_id)

    def _cursor_acked(self, record: cr.CursorAcked) -> None:
        topic_name, name = self.current.cursors[record.cursor_id]
        topic = self.current.topics[topic_name]
        self._skipped(
            topic_name,
            name,
            [
                place
                for place in topic.log
                if any(place[0] == ledger_id and first <= place[1] < end for ledger_id, first, end in record.ranges)
            ],
        )
        subscription = topic.subscriptions[name]
        for ledger_id, entry_id, bits in record.batch_sets:
            place = (ledger_id, entry_id)
            sent = topic.log.get(place)
            if sent is not None and place not in subscription.acked:
                left = subscription.bits.get(place, sent.full)
                if left & ~bits:
                    raise Violation(f"{name} of {topic_name}: messages of {place} are acked, and nobody acked them")

    def _cursor_mark_deleted(self, record: cr.CursorMarkDeleted) -> None:
        topic_name, name = self.current.cursors[record.cursor_id]
        mark = (record.ledger_id, record.entry_id)
        self._skipped(topic_name, name, [place for place in self.current.topics[topic_name].log if place <= mark])

    def _skipped(self, topic_name: str, name: str, places: list[Place]) -> None:
        """Entries are acked by a record: what no client acked must be allowed by a rule."""
        topic = self.current.topics[topic_name]
        acked = topic.subscriptions[name].acked
        unasked = [place for place in places if place not in acked]
        for place in unasked:
            sent = topic.log[place]
            if not (self._is_expiring(topic_name, name, sent) or self.rules.may_skip(topic_name, name, sent)):
                raise Violation(f"{name} of {topic_name}: {place} is acked, and neither a client nor a rule did it")
        if unasked:
            self.post("acked", topic_name, name, unasked)

    def _is_expiring(self, topic_name: str, name: str, sent: Sent) -> bool:
        """Tells whether a request lets the subscription expire an entry of this age. It may be written later, so that
        requests are kept for a while."""
        return any(
            (each.topic, each.name) == (topic_name, name) and sent.publish_ms < each.time_ms for each in self.expiring
        )

    def _cursor_reset(self, record: cr.CursorReset) -> None:
        topic_name, name = self.current.cursors[record.cursor_id]
        mark = (record.ledger_id, record.entry_id)
        waiting = self.seeks.get((topic_name, name))
        if not waiting:
            raise Violation(f"{name} of {topic_name} moves to {mark} without a request")
        seek = waiting.popleft()
        log = self.current.topics[topic_name].log
        wrong = seek.wrong(mark, log)
        if wrong and (seek.is_exact or seek.index < 0):
            raise Violation(f"{name} of {topic_name} moved to {mark} for {seek}: wrong for {wrong} (CUR-11, CUR-12)")
        self.post("moved", topic_name, name, mark)
        if seek.place is not None and seek.index >= 0 and self.batch_index_acks:
            bits = seek.bits(log.get(seek.place))
            if bits > 0 and (seek.is_exact or seek.place > mark):
                self.post("acked_in_part", topic_name, name, seek.place, bits)
        seek.submit = self.submitted + 1

    # Comparing

    def compare(self, state: DurableState) -> None:
        """The broker's state says what the account says."""
        compare(state, self.current)

    def verify_content(self, storage: Storage, state: DurableState) -> None:
        """Every readable entry is stored as it was sent."""
        verify(self.durable, state, storage)
        for name, topic in self.durable.topics.items():
            for ledger_id in topic.ledgers:
                wanted = {place[1]: sent for place, sent in topic.log.items() if place[0] == ledger_id}
                first = min(wanted, default=0)
                while wanted:
                    runs = storage.read(ledger_id, first, 100, 1 << 20)
                    if not runs:
                        raise Violation(f"{name}: entries {list(wanted)} of ledger {ledger_id} cannot be read")
                    for run in runs:
                        for entry_id in range(run.first_entry_id, run.end_entry_id):
                            sent = wanted.pop(entry_id, None)
                            counts = run.message_counts
                            count = 1 if counts is None else counts[entry_id - run.first_entry_id]
                            if sent is not None and (run.entry(entry_id), count) != (sent.entry, sent.count):
                                raise Violation(f"{name}: {ledger_id}:{entry_id} is not what was sent")
                        first = run.end_entry_id
