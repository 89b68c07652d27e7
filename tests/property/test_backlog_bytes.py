"""Bytes of backlogs beside plain sums: ledgers that know marks and windows of sizes, and quotas that rely on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topic_log import backlog_bytes
from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo, SizeSpan
from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import (
    BACKLOG_EVICTION,
    DESTINATION_STORAGE,
    REQUEST_HOLD,
    BacklogQuota,
)
from spark_pulsar.model.positions.ids import EARLIEST, Position
from tests.unit.broker.world import TOPIC, World, entry

Sizes = dict[Position, int]
Known = Callable[[ManagedLedger], Position | SizeSpan | None]

entry_sizes = st.sampled_from([0, 1, 90, 5_000, 40_000, 100_000])
runs = st.lists(st.lists(entry_sizes, min_size=1, max_size=6), max_size=12)


@st.composite
def chains(draw: st.DrawFn) -> tuple[ManagedLedger, Sizes]:
    """Ledgers filled run by run as a live broker does, or known by their totals only, as after a restart; of the first
    ones some entries may be dropped."""
    ledger, sizes = ManagedLedger(1), Sizes()
    for ledger_id in range(1, 1 + draw(st.integers(1, 3))):
        info = LedgerInfo(ledger_id, 1, ledger.total_entries, 0)
        was_live = draw(st.booleans())
        for run in draw(runs):
            for size in run:
                sizes[Position(ledger_id, info.entries)] = size
                info.entries += 1
                info.size_bytes += size
            if was_live and info.size_bytes >= info.next_mark_bytes:
                info.mark()
        if info.marks is not None and draw(st.booleans()):
            info.marks.thin(info.entries)
        ledger.add(info)
    front = ledger.ledgers[1]
    ledger.drop_before(1, draw(st.integers(0, front.entries)))
    for entry_id in range(front.first_entry_id):
        del sizes[Position(1, entry_id)]
    return ledger, sizes


def learn(ledger: ManagedLedger, sizes: Sizes, ask: Known) -> Position | None:
    """Has measured what is asked for, until an answer comes."""
    for _ in range(10):
        answer = ask(ledger)
        if not isinstance(answer, SizeSpan):
            return answer
        assert answer.first < answer.end
        wanted = [Position(answer.ledger_id, number) for number in range(answer.first, answer.end)]
        assert sizes.keys() >= set(wanted), "what cannot be read cannot be measured"
        ledger.learn(answer, [sizes[each] for each in wanted])
    raise AssertionError("it never knows enough")


@given(chain=chains(), data=st.data())
def test_measured_sizes_are_exact(chain: tuple[ManagedLedger, Sizes], data: st.DataObject) -> None:
    # covers BQ-1
    ledger, sizes = chain
    for _ in range(data.draw(st.integers(1, 4))):
        first = ledger.ledgers[1].first_entry_id
        position = data.draw(st.sampled_from([*sizes, Position(1, first - 1)]))
        exact = sum(size for each, size in sizes.items() if each > position)
        for _ in range(2):  # before and after measuring
            assert ledger.bytes_after_at_least(position) <= exact <= ledger.bytes_after_at_most(position)
            least, most = ledger.bytes_after_at_least(position), ledger.bytes_after_at_most(position)
            assert least <= ledger.bytes_after(position) <= most
            learn(ledger, sizes, lambda ledger, position=position: ledger.unmeasured(position))  # type: ignore[misc]
        assert ledger.bytes_after(position) == ledger.bytes_after_at_most(position) == exact


@given(chain=chains(), data=st.data())
def test_what_is_kept_is_all_that_fits(chain: tuple[ManagedLedger, Sizes], data: st.DataObject) -> None:
    # covers BQ-6
    ledger, sizes = chain
    mark = data.draw(st.sampled_from([*sizes, Position(1, ledger.ledgers[1].first_entry_id - 1)]))
    backlog = sum(size for each, size in sizes.items() if each > mark)
    if not backlog:
        return
    limit = data.draw(st.integers(0, backlog - 1))
    kept = learn(ledger, sizes, lambda ledger: ledger.keeping_bytes(limit, mark))
    assert kept is not None
    assert kept > mark
    assert kept == EARLIEST or kept in sizes
    assert sum(size for each, size in sizes.items() if each > kept) <= limit
    assert sum(size for each, size in sizes.items() if each >= kept) > limit


def test_a_long_ledger_is_learned_in_marks() -> None:
    ledger = ManagedLedger(1)
    sizes = {Position(1, number): number % 7 for number in range(50_000)}
    ledger.add(LedgerInfo(1, 1, 0, 0, entries=50_000, size_bytes=sum(sizes.values()), sealed_ms=1))
    position = Position(1, 30_000)
    longest: list[int] = []

    def ask(ledger: ManagedLedger) -> SizeSpan | None:
        span = ledger.unmeasured(position)
        longest.append(0 if span is None else span.end - span.first)
        return span

    learn(ledger, sizes, ask)
    assert ledger.bytes_after(position) == sum(size for each, size in sizes.items() if each > position)
    position = Position(1, 40_000)
    learn(ledger, sizes, ask)
    assert longest[0] == 19_999
    assert max(longest[1:]) <= 2048
    assert ledger.bytes_after(position) == sum(size for each, size in sizes.items() if each > position)


class Model:
    """One topic with one subscription, and the sizes of its entries."""

    def __init__(self, limit: int, policy: str, **config: Any) -> None:
        self.limit, self.policy = limit, policy
        self.config = {"keep_alive_interval_ms": 1 << 50, "ledger_min_age_ms": 0, "ledger_max_entries": 25, **config}
        self.sizes = Sizes()
        self.world = World(**self.config)
        client = self.world.connect()
        client.open_consumer()
        self._produce()
        quotas = {DESTINATION_STORAGE: BacklogQuota(limit, -1, policy).to_json()}
        self.world.ask(
            lambda core: policy_changes.set_of_namespace(core, "public/default", policy_table.BACKLOG_QUOTAS, quotas)
        )
        self.world.advance(10)

    def _produce(self) -> None:
        self.feeder = self.world.connect()
        self.feeder.open_producer()
        self.number = 0

    @property
    def mark(self) -> Position:
        return self.world.state.topics_by_name[TOPIC].cursors["s"].mark_delete

    @property
    def backlog(self) -> int:
        return sum(size for position, size in self.sizes.items() if position > self.mark)

    def publish(self, lengths: list[int]) -> None:
        """Entries in one run; what was stored is added to the sizes."""
        topic = self.world.core.topics[TOPIC]
        before = topic.ledger.last_position
        entries = [entry("x" * length) for length in lengths]
        backlog, mark = self.backlog, self.mark
        self.feeder.publish(1, *entries, first=self.number)
        self.number += len(entries)
        left = [len(each) for each in entries]
        for ledger_id in topic.ledger.ledger_ids():
            for entry_id in range(topic.ledger.ledgers[ledger_id].entries):
                if (position := Position(ledger_id, entry_id)) > before:
                    self.sizes[position] = left.pop(0)
        assert not left
        total = backlog + sum(map(len, entries))
        is_open = bool(topic.producers)
        if self.policy != BACKLOG_EVICTION:
            assert self.mark == mark
            assert is_open == (total < self.limit)
            if not is_open:
                self._empty()
        elif total < self.limit:
            assert self.mark == mark
        else:
            kept = self.limit * 9 // 10
            assert self.backlog <= kept
            assert self.sizes[self.mark] + self.backlog > kept

    def _empty(self) -> None:
        """Takes it all, and come back."""
        self.acknowledge(len(self.sizes))
        self._produce()

    def acknowledge(self, entries: int) -> None:
        """Some of the oldest entries."""
        self.world.ask(lambda core: cursor_moves.skip(core, core.topics[TOPIC].subscriptions["s"], entries))
        self.world.settle()

    def restart(self) -> None:
        self.world = self.world.restart(**self.config)
        self.world.advance(1_000)
        self._produce()


steps = st.lists(
    st.one_of(
        st.lists(st.sampled_from([0, 10, 400, 3_000, 20_000]), min_size=1, max_size=8),
        st.integers(1, 30),
        st.none(),
    ),
    max_size=25,
)


@settings(max_examples=60)
@given(
    steps=steps,
    limit=st.sampled_from([2_000, 30_000, 100_000]),
    policy=st.sampled_from([BACKLOG_EVICTION, REQUEST_HOLD]),
    cache_bytes=st.sampled_from([0, 20_000, 1 << 20]),
)
def test_quotas_are_exact(steps: list[list[int] | int | None], limit: int, policy: str, cache_bytes: int) -> None:
    # covers BQ-1, BQ-6
    model = Model(limit, policy, cache_bytes=cache_bytes)
    for step in steps:
        if isinstance(step, list):
            model.publish(step)
        elif step is not None:
            model.acknowledge(step)
        else:
            model.restart()
        topic = model.world.core.topics[TOPIC]
        assert backlog_bytes.least_backlog_bytes(topic) <= model.backlog <= backlog_bytes.most_backlog_bytes(topic)
