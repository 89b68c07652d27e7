"""Reads: by the loop of entries at hand, once in a turn; by threads of everything else."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from spark_pulsar.broker.turn.effects import ReadEntries
from spark_pulsar.broker.turn.events import EntriesRead, Event
from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.server.reads import _AT_ONCE_BYTES, Reads
from tests.contract.memory_storage import MemoryDisk, MemoryStorage
from tests.entry_runs import run_of

LARGE = _AT_ONCE_BYTES // 2 + 1


class Watched(MemoryStorage):
    """Notes in which thread it is read, and how much is asked for."""

    asked: list[tuple[str, int]]

    def read(self, ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> list[EntryRun]:
        if threading.current_thread() is not threading.main_thread():
            self.asked.append(("thread", max_bytes))
        return super().read(ledger_id, entry_id, max_entries, max_bytes)

    def read_at_once(self, ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> list[EntryRun]:
        assert threading.current_thread() is threading.main_thread()
        self.asked.append(("loop", max_bytes))
        return super().read_at_once(ledger_id, entry_id, max_entries, max_bytes)


class World:
    """One ledger of two large entries and a small one, and what the engine is told."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.happened: list[Event] = []
        self.wanted = 0
        self.storage, state = Watched.open(MemoryDisk(), on_failed=None)
        self.storage.asked = []
        records = [TopicCreated(state.next_topic_id, "persistent://public/default/t", 5, {})]
        apply(state, records[0])
        opened = state.records_to_open_ledger(records[0].topic_id, 7)
        for record in opened:
            apply(state, record)
        run = run_of(1, 0, [b"a" * LARGE, b"b" * LARGE, b"c"])
        self.storage.submit([*records, *opened, EntriesAppended(run)], None)
        self.reads = Reads(loop, self.storage, self.hear, self.fail, self.fail)

    def hear(self, events: list[Event]) -> None:
        self.happened += events
        if len(self.happened) == self.wanted:
            self.loop.stop()

    def fail(self, *what: object) -> None:
        raise AssertionError(what)

    def order(self, token: int, entry_id: int) -> None:
        self.reads.entries(ReadEntries(token, 1, entry_id, 10, 5 * _AT_ONCE_BYTES))

    def read(self, *tokens: int) -> dict[int, list[int]]:
        """The entries that were read for these orders, once they have come."""
        assert not self.happened, "an order is answered in a later turn"
        self.wanted = len(tokens)
        self.loop.run_forever()
        found = {}
        for event in self.happened:
            assert isinstance(event, EntriesRead)
            found[event.token] = [at for run in event.runs for at in range(run.first_entry_id, run.end_entry_id)]
        self.happened.clear()
        assert found.keys() == set(tokens)
        return found


@pytest.fixture
def world() -> Iterator[World]:
    loop = asyncio.new_event_loop()
    world = World(loop)
    yield world
    world.reads.close()
    loop.close()


def test_the_loop_reads_what_is_at_hand_and_not_much_of_it(world: World) -> None:
    world.order(1, 0)
    assert world.read(1) == {1: [0]}, "a second one would be more than the loop takes"
    assert world.storage.asked == [("loop", _AT_ONCE_BYTES)]
    world.order(2, 2)
    assert world.read(2) == {2: [2]}
    assert world.storage.asked[1:] == [("loop", _AT_ONCE_BYTES)]


def test_what_else_is_ordered_in_the_same_turn_is_for_threads(world: World) -> None:
    world.order(1, 2)
    world.order(2, 0)
    assert world.read(1, 2) == {1: [2], 2: [0, 1, 2]}
    assert world.storage.asked == [("loop", _AT_ONCE_BYTES), ("thread", 5 * _AT_ONCE_BYTES)]


def test_what_is_not_at_hand_is_for_threads(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_pulsar.server.reads._AT_ONCE_BYTES", 1000)
    world.order(1, 0)
    assert world.read(1) == {1: [0, 1, 2]}
    assert world.storage.asked == [("loop", 1000), ("thread", 5 * _AT_ONCE_BYTES)]
