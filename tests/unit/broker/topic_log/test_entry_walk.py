"""Walks over entries: from the cache and from storage, in slices, to an early end, past trimmed ledgers."""

import pytest

from spark_pulsar.broker.topic_log.entry_walk import EntryWalk
from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.state.ledgers import LedgersTrimmed
from spark_pulsar.model.positions.ids import EARLIEST, Position
from tests.unit.broker.world import TOPIC, World, entry

ENTRIES = 30
A_LEDGER = 8


class Walker:
    """A walk over a topic of thirty entries in ledgers of eight, and the entries that it visited."""

    def __init__(self, cache_bytes: int = 0, *, stop_at: int = ENTRIES) -> None:
        self.world = World(cache_bytes=cache_bytes, ledger_max_entries=A_LEDGER, ledger_min_age_ms=-1)
        client = self.world.connect()
        client.open_consumer("s")
        client.open_producer()
        for number in range(ENTRIES):
            client.publish(1, entry(str(number)))
        self.topic = self.world.core.topics[TOPIC]
        self.places = [position for _, position in client.receipts()]
        self.visited: list[Position] = []
        self.resumed = 0
        self.stop_at = stop_at
        self.walk = self.walk_from(EARLIEST)

    def walk_from(self, position: Position) -> EntryWalk:
        end = self.topic.last_add_confirmed.next_in_ledger
        return EntryWalk(self.world.core, self.topic, position, end, self.visit, self.resume)

    def visit(self, run: EntryRun, first: int, end: int) -> int:
        for entry_id in range(first, end):
            if len(self.visited) >= self.stop_at:
                return entry_id
            self.visited.append(Position(run.ledger_id, entry_id))
        return end

    def resume(self) -> None:
        self.resumed += 1

    def go(self, budget: int = 1_000) -> int:
        left: list[int] = []
        self.world.disk_is_slow = True
        self.world.ask(lambda _: left.append(self.walk.walk(budget)))
        return left[0]


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["stored", "cached"])
def test_all_entries_are_visited_once_and_in_order(cache_bytes: int) -> None:
    walker = Walker(cache_bytes)
    turns = 0
    while not walker.walk.is_over:
        walker.go(ENTRIES + 1)
        walker.world.serve_reads()
        turns += 1
    assert walker.visited == walker.places
    assert turns == (1 if cache_bytes else 5), "each ledger is read for itself"
    assert walker.resumed == turns - 1
    assert not walker.walk.has_failed


def test_a_slice_ends_with_the_budget() -> None:
    walker = Walker(1 << 20)
    assert walker.go(11) == 0
    assert walker.visited == walker.places[:11]
    assert not walker.walk.is_over
    assert walker.go(100) == 100 - (ENTRIES - 11)
    assert walker.visited == walker.places
    assert walker.walk.is_over


def test_a_visit_ends_the_walk_early() -> None:
    walker = Walker(1 << 20, stop_at=10)
    assert walker.go(100) == 100 - 11
    assert walker.walk.is_over
    assert walker.walk.position == walker.places[10]


def test_an_entry_that_cannot_be_read_ends_the_walk() -> None:
    walker = Walker()
    walker.go()
    assert walker.walk.is_reading
    walker.world.serve_reads(fail=True)
    assert (walker.walk.is_over, walker.walk.has_failed, walker.resumed) == (True, True, 1)
    assert walker.walk.position == walker.places[0]
    assert walker.go() == 1_000
    assert not walker.visited


def test_a_ledger_that_is_trimmed_while_it_is_read_is_passed_over() -> None:
    walker = Walker()
    walker.go()
    first = walker.places[0].ledger_id
    walker.world.ask(lambda core: core.append(LedgersTrimmed(walker.topic.state.topic_id, [first])))
    walker.world.serve_reads(fail=True)
    assert (walker.walk.is_over, walker.walk.has_failed, walker.resumed) == (False, False, 1)
    while not walker.walk.is_over:
        walker.go()
        walker.world.serve_reads()
    assert walker.visited == walker.places[A_LEDGER:]
