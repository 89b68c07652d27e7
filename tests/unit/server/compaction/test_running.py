"""The thread that compacts, and the walks over entries that it makes."""

import queue
import threading

import pytest

from spark_pulsar.broker.turn.effects import CompactTopic
from spark_pulsar.broker.turn.events import CompactionEnded, CompactionFailed, EntriesCompacted, Event
from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.state.compaction import SOURCE
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.server.compaction import compactor as compacting
from spark_pulsar.server.compaction.compactor import Compactor
from spark_pulsar.server.compaction.running import Compactions
from tests.entry_runs import run_of
from tests.unit.broker.compacting import keyed


class Ledgers:
    """Entries by ledger, read in pieces of any size."""

    def __init__(self, **ledgers: list[bytes]) -> None:
        self.ledgers = {int(name[1:]): entries for name, entries in ledgers.items()}
        self.piece = 3

    def read(self, ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> list[EntryRun]:
        entries = self.ledgers[ledger_id]
        end = min(len(entries), entry_id + max_entries)
        starts = range(entry_id, end, self.piece)
        return [run_of(ledger_id, first, entries[first : min(end, first + self.piece)]) for first in starts]


def sources(compactor: Compactor) -> list[tuple[int, int]]:
    return [SOURCE.unpack_from(block.buffer, start) for block in compactor.blocks() for start in block.starts]


def test_entries_of_several_ledgers_in_small_pieces() -> None:
    ledgers = Ledgers(l3=[keyed(f"k{number % 5}") for number in range(10)], l7=[keyed("k1"), keyed("x"), keyed("y")])
    for piece in (1, 3, 100):
        ledgers.piece = piece
        compactor = Compactor(CompactTopic(1, (), ((3, 0, 10), (7, 0, 2)), False), ledgers.read)
        compactor.block_entries = 2
        assert sources(compactor) == [(3, 5), (3, 7), (3, 8), (3, 9), (7, 0), (7, 1)]
        assert compactor.removed == 6


def test_more_keys_than_are_gathered_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "_GATHERED_KEYS", 4)
    ledgers = Ledgers(l1=[keyed(f"k{number % 30}") for number in range(100)])
    compactor = Compactor(CompactTopic(1, (), ((1, 0, 100),), False), ledgers.read)
    assert sources(compactor) == [(1, number) for number in range(70, 100)]


def test_an_entry_that_vanishes_between_the_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "_READ_ENTRIES", 1)
    ledgers = Ledgers(l1=[keyed("a"), keyed("b")])
    compactor = Compactor(CompactTopic(1, (), ((1, 0, 2),), False), ledgers.read)
    compactor.block_entries = 1
    blocks = compactor.blocks()
    next(blocks)
    ledgers.ledgers[1] = []
    with pytest.raises(CorruptMessage, match="1:1"):
        list(blocks)


class Shell:
    """Events that the thread tells."""

    def __init__(self) -> None:
        self.told: queue.Queue[Event] = queue.Queue()

    def next(self) -> Event:
        return self.told.get(timeout=60)


def test_blocks_come_one_at_a_time_and_compactions_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "BLOCK_ENTRIES", 1)
    ledgers, shell = Ledgers(l1=[keyed("a"), keyed("b")]), Shell()
    compactions = Compactions(ledgers.read, shell.told.put)
    for token in (1, 2):
        compactions.start(CompactTopic(token, (), ((1, 0, 2),), False))
    for token in (1, 2):
        for entry_id in (0, 1):
            event = shell.next()
            assert isinstance(event, EntriesCompacted)
            assert (event.token, event.source) == (token, (1, entry_id))
            assert shell.told.empty()
            compactions.go_on(token)
        assert shell.next() == CompactionEnded(token, 0)
    compactions.close()


def test_what_cannot_be_read_is_told() -> None:
    def read(ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> list[EntryRun]:
        raise StorageDamaged("ledgers/1", 5, "no luck")

    shell = Shell()
    compactions = Compactions(read, shell.told.put)
    compactions.start(CompactTopic(1, (), ((1, 0, 2),), False))
    event = shell.next()
    assert isinstance(event, CompactionFailed)
    assert "ledgers/1" in event.reason
    compactions.close()


def test_it_stops_in_the_middle_of_a_walk() -> None:
    reading, may_go_on = threading.Event(), threading.Event()
    ledgers, shell = Ledgers(l1=[keyed(f"{number}") for number in range(1_000)]), Shell()

    def read(ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> list[EntryRun]:
        reading.set()
        assert may_go_on.wait(60)
        return ledgers.read(ledger_id, entry_id, max_entries, max_bytes)

    compactions = Compactions(read, shell.told.put)
    compactions.start(CompactTopic(1, (), ((1, 0, 1_000),), False))
    assert reading.wait(60)
    compactions.stop(1)
    may_go_on.set()
    compactions.start(CompactTopic(2, (), ((1, 0, 2),), False))
    event = shell.next()
    assert isinstance(event, EntriesCompacted)
    assert event.token == 2, "nothing is told of what was stopped"
    compactions.close()
