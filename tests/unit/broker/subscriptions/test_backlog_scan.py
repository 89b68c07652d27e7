"""Counting a backlog by looking at it: what is acknowledged is left out, what must be read is, and there is an end."""

import pytest

from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.subscriptions import backlog_scan
from spark_pulsar.broker.subscriptions.backlog_scan import BacklogScan
from spark_pulsar.ledger.state.cursors.records import CursorAcked
from spark_pulsar.model.positions.ids import EARLIEST, Position
from tests.unit.broker.world import TOPIC, World, entry


def started(world: World, start: Position = EARLIEST) -> list[BacklogScan]:
    """Begins a scan; the list has it when it has ended, once for each time that it says so."""
    ended: list[BacklogScan] = []

    def begin(core: Core) -> None:
        scan = BacklogScan(core, core.topics[TOPIC].subscriptions["s"], start, lambda: ended.append(scan))
        scan.step()

    world.ask(begin)
    return ended


def scanned(world: World, start: Position = EARLIEST, *, fail: bool = False) -> BacklogScan:
    world.disk_is_slow = fail  # else it answers by itself
    ended = started(world, start)
    if fail:
        world.serve_reads(fail=True)
    [scan] = ended
    return scan


def stored(count: int, cache_bytes: int, batch: int = 0) -> tuple[World, list[Position]]:
    """A topic of so many entries in ledgers of eight, and a subscription to all of them."""
    world = World(cache_bytes=cache_bytes, ledger_max_entries=8, ledger_min_age_ms=-1)
    client = world.connect_consumer("s")
    client.open_producer()
    places = []
    for number in range(count):
        client.publish(1, entry(str(number), batch=batch), messages=max(1, batch))
        places += [position for _, position in client.receipts()]
    return world, places


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["stored", "cached"])
@pytest.mark.parametrize("batch", [0, 3])
def test_what_is_not_acknowledged_is_counted(cache_bytes: int, batch: int) -> None:
    # covers ADM-73
    world, places = stored(30, cache_bytes, batch)
    world.connect_consumer("other")
    scan = scanned(world)
    each = max(1, batch)
    assert (scan.entries, scan.messages, scan.first, scan.last) == (30, 30 * each, places[0], places[29])
    cursor = world.subscription().cursor
    acked = [0, 1, 2, 7, 8, 9, 15, 20, 29]
    world.ask(
        lambda core: core.append(CursorAcked(cursor.cursor_id, [(*places[at], places[at][1] + 1) for at in acked]))
    )
    scan = scanned(world)
    assert (scan.entries, scan.messages, scan.first, scan.last) == (21, 21 * each, places[3], places[28])
    scan = scanned(world, places[16])
    assert (scan.entries, scan.first, scan.last) == (12, places[16], places[28])
    assert not scan.aborted
    scan = scanned(world, Position(places[29].ledger_id, 99))
    assert (scan.entries, scan.first, scan.last, scan.aborted) == (0, None, None, False)


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["stored", "cached"])
def test_a_long_backlog_is_not_counted_to_its_end(cache_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog_scan, "MOST_ENTRIES", 20)
    world, places = stored(30, cache_bytes)
    scan = scanned(world)
    assert (scan.entries, scan.last, scan.aborted) == (20, places[19], True)
    assert not scanned(world, places[10]).aborted


def test_what_cannot_be_read_is_not_counted() -> None:
    world, _ = stored(5, 0)
    scan = scanned(world, fail=True)
    assert (scan.entries, scan.aborted) == (0, True)


def test_a_slow_disk_ends_it() -> None:
    # covers ADM-73
    world, places = stored(30, 0)
    world.disk_is_slow = True
    ended = started(world)
    world.serve_reads()
    world.advance(backlog_scan.LONGEST_MS - 1)
    assert (len(world.reads), ended) == (1, [])
    world.advance(1)
    [scan] = ended
    assert (scan.entries, scan.last, scan.aborted) == (8, places[7], True)
    world.serve_reads()  # what comes after that is of no use
    assert (ended, scan.entries, world.reads) == ([scan], 8, [])


def test_its_end_is_told_once() -> None:
    world, _ = stored(30, 0)
    ended = started(world)
    world.advance(backlog_scan.LONGEST_MS)
    assert [scan.aborted for scan in ended] == [False]
