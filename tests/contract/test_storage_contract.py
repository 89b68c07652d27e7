"""The contract of `spark_pulsar.ledger.storage.Storage`."""

import random
import threading
from contextlib import suppress

import pytest

from spark_pulsar.ledger.entries import EntryColumns, EntryRun
from spark_pulsar.ledger.managed_ledgers.ledger import RollLimits
from spark_pulsar.ledger.managed_ledgers.trimming import plan_trimming
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors.records import CursorCreated, CursorDeleted
from spark_pulsar.ledger.state.ledgers import LedgersTrimmed
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.ledger.storage import StorageFailed
from spark_pulsar.model.policies.effective_policies import RetentionPolicy
from spark_pulsar.model.positions.ids import Position
from tests.contract.histories import History, picture
from tests.contract.storages import World
from tests.entry_runs import run_of
from tests.eventually import eventually

TOPIC = "persistent://public/default/t"


def make_topic(world: World, name: str = TOPIC) -> int:
    topic_id = world.state.next_topic_id
    world.apply_and_submit(TopicCreated(topic_id, name, 5, {}))
    open_ledger(world, topic_id)
    return topic_id


def open_ledger(world: World, topic_id: int) -> int:
    world.apply_and_submit(*world.state.records_to_open_ledger(topic_id, 7))
    current = world.state.topics[topic_id].ledger.current
    assert current is not None
    return current.ledger_id


def append(world: World, topic_id: int, *entries: bytes, message_counts: list[int] | None = None) -> EntryRun:
    ledger = world.state.topics[topic_id].ledger
    assert ledger.current is not None
    run = run_of(ledger.current.ledger_id, ledger.current.entries, entries, message_counts)
    world.apply_and_submit(EntriesAppended(run))
    return run


def test_a_new_storage_is_empty(world: World) -> None:
    assert world.state.topics == {}
    assert world.state.namespaces == {"public/default": "{}"}
    assert world.storage.read(1, 0, 10, 1000) == []
    assert world.storage.report.groups == 0


def test_groups_and_callbacks_come_in_order(world: World) -> None:
    topic_id = make_topic(world)
    seen: list[tuple[int, int]] = []
    done = threading.Event()
    for entry_id in range(200):
        record = EntriesAppended(run_of(1, entry_id, [b"x"]))
        apply(world.state, record)

        def on_durable(group: int, entry_id: int = entry_id) -> None:
            seen.append((entry_id, group))
            if entry_id == 199:
                done.set()

        world.storage.submit([record], on_durable)
    assert done.wait(60)
    assert [entry_id for entry_id, _ in seen] == list(range(200))
    groups = [group for _, group in seen]
    assert groups == sorted(groups)
    assert groups[0] > world.groups[-1]
    assert world.storage.unwritten_bytes == 0
    assert world.state.topics[topic_id].ledger.last_position == Position(1, 199)


def test_ids_are_never_used_again(world: World) -> None:
    # covers ML-1
    topic_id = make_topic(world)
    append(world, topic_id, b"x")
    seen = [1]
    for clean in (True, False, True, False):
        if clean:
            world.close()
        else:
            world.kill()
        world.open()
        ledger = world.state.topics[topic_id].ledger
        assert ledger.must_roll(8, RollLimits(min_age_ms=10**12))
        ledger_id = open_ledger(world, topic_id)
        assert ledger_id > seen[-1]
        seen.append(ledger_id)
        assert ledger.open_ledger is not None
        assert ledger.open_ledger.entries == 0
        append(world, topic_id, b"in %d" % ledger_id)
    for ledger_id in seen[1:]:
        assert world.read_all(ledger_id) == {0: b"in %d" % ledger_id}


def test_ids_of_deleted_things_are_not_used_again(world: World) -> None:
    topic_id = make_topic(world)
    world.apply_and_submit(CursorCreated(1, topic_id, "sub", -1, -1, 9, {}))
    world.apply_and_submit(CursorDeleted(1))
    world.apply_and_submit(*world.state.records_to_delete_topic(topic_id))
    world.checkpoint()
    world.kill()
    world.open()
    assert (world.state.next_topic_id, world.state.next_ledger_id, world.state.next_cursor_id) == (2, 2, 2)


def test_read_respects_its_limits(world: World) -> None:
    topic_id = make_topic(world)
    append(world, topic_id, b"a" * 100, b"b" * 100, b"c" * 100)
    append(world, topic_id, b"d" * 5000)
    append(world, topic_id, b"e" * 100)

    def ids(entry_id: int, max_entries: int, max_bytes: int) -> list[int]:
        runs = world.storage.read(1, entry_id, max_entries, max_bytes)
        return [found for run in runs for found in range(run.first_entry_id, run.end_entry_id)]

    assert ids(0, 100, 100_000) == [0, 1, 2, 3, 4]
    assert ids(1, 100, 100_000) == [1, 2, 3, 4]
    assert ids(1, 1, 100_000) == [1]
    assert ids(0, 4, 100_000) == [0, 1, 2, 3]
    assert ids(0, 100, 200) == [0, 1]
    assert ids(0, 100, 1) == [0]
    assert ids(3, 100, 1) == [3]
    assert ids(2, 100, 1000) == [2]
    assert ids(4, 100, 1) == [4]
    assert ids(5, 100, 1000) == []


def test_what_is_read_at_once_is_the_beginning_of_what_is_read(world: World) -> None:
    topic_id = make_topic(world)
    append(world, topic_id, b"a" * 100, b"b" * 100, message_counts=[3, 1])
    append(world, topic_id, b"c" * 5000)
    append(world, topic_id, b"d" * 100)

    def entries(runs: list[EntryRun]) -> list[tuple[int, bytes, int]]:
        found: list[tuple[int, bytes, int]] = []
        for run in runs:
            counts = run.message_counts or [1] * len(run)
            columns = zip(range(run.first_entry_id, run.end_entry_id), run.starts, run.ends, counts, strict=True)
            found += [(entry_id, run.buffer[start:end], count) for entry_id, start, end, count in columns]
        return found

    def look(entry_id: int, max_entries: int, max_bytes: int) -> list[int]:
        found = entries(world.storage.read_at_once(1, entry_id, max_entries, max_bytes))
        assert found == entries(world.storage.read(1, entry_id, max_entries, max_bytes))[: len(found)]
        assert sum(len(data) for _, data, _ in found) <= max_bytes
        ids = [entry for entry, _, _ in found]
        assert ids == [*range(entry_id, entry_id + len(ids))]
        return ids

    if world.can_be_asked_for_memory:
        assert look(0, 100, 100_000) == [0, 1, 2, 3], "what was just written is in memory"
        assert look(1, 100, 100_000) == [1, 2, 3]
        assert look(1, 2, 100_000) == [1, 2]
        assert look(0, 100, 1000) == [0, 1]
    for nothing in ((2, 100, 4999), (0, 100, 0), (4, 100, 1000)):
        assert look(*nothing) == []
    assert world.storage.read_at_once(9, 0, 100, 1000) == []
    world.apply_and_submit(EntriesAppended(EntryColumns(b"ee", [1, 1], [4, 5], [0, 1], [1, 2], None)))
    for entry_id in (3, 4):
        look(entry_id, 100, 1000)
    world.checkpoint()
    for entry_id in range(6):
        look(entry_id, 100, 100_000)
    append(world, topic_id, b"f" * 10)
    assert look(6, 100, 1000) == [6] * world.can_be_asked_for_memory


def test_sizes_of_entries_wherever_they_are(world: World) -> None:
    # covers BQ-1
    topic_id = make_topic(world)
    sizes = [random.Random(1).choice((1, 30, 5000)) for _ in range(60)]
    for at in (0, 20):
        append(world, topic_id, *(b"x" * size for size in sizes[at : at + 19]))
        append(world, topic_id, b"y" * sizes[at + 19])

    def check(first: int = 0) -> None:
        stored = world.state.ledgers[1].entries
        for low, high in ((first, stored), (first, first + 1), (first + 3, 29), (max(first, 19), 39), (30, 30)):
            assert list(world.storage.sizes(1, low, high)) == sizes[low:high]

    check()
    world.checkpoint()
    check()
    for number in range(40, 60):
        record = EntriesAppended(
            EntryColumns(
                b"-" + b"z" * sizes[number], [1], [number], [1], [1 + sizes[number]], None if number % 2 else [2]
            )
        )
        world.apply_and_submit(record)
    check()
    assert list(world.storage.sizes(1, 58, 63)) == [*sizes[58:], 0, 0, 0]
    assert list(world.storage.sizes(9, 0, 2)) == [0, 0]
    world.kill()
    world.open()
    check()
    world.apply_and_submit(CursorCreated(world.state.next_cursor_id, topic_id, "sub", 1, 24, 9, {}))
    world.checkpoint()
    check(25)


def test_entries_between_other_bytes_are_read_as_they_are(world: World) -> None:
    make_topic(world)
    buffer = b"??first??second?" + b"?" * 1000
    world.apply_and_submit(EntriesAppended(EntryRun(1, 0, buffer, [2, 9], [7, 15])))
    large = b"!" * 50_000
    world.apply_and_submit(EntriesAppended(EntryRun(1, 2, b"????" + large + b"??", [4], [4 + len(large)], [12])))
    assert world.read_all(1) == {0: b"first", 1: b"second", 2: large}
    world.kill()
    world.open()
    assert world.read_all(1) == {0: b"first", 1: b"second", 2: large}


def test_a_submit_is_encoded_when_it_is_made(world: World) -> None:
    make_topic(world)
    starts, ends = [0], [5]
    record = EntriesAppended(EntryRun(1, 0, b"helloworld", starts, ends))
    world.apply_and_submit(record)
    starts[0], ends[0] = 5, 10
    assert world.read_all(1) == {0: b"hello"}


def test_trimmed_ledgers_are_gone(world: World) -> None:
    topic_id = make_topic(world)
    append(world, topic_id, b"old" * 30_000)
    open_ledger(world, topic_id)
    append(world, topic_id, b"new" * 30_000)
    world.checkpoint()
    assert plan_trimming(world.state.topics[topic_id].ledger, None, RetentionPolicy(), 2).gone == (1,)
    world.apply_and_submit(LedgersTrimmed(topic_id, (1,)))
    world.checkpoint()
    assert world.storage.read(1, 0, 10, 1000) == []
    assert world.read_all(2) == {0: b"new" * 30_000}
    world.kill()
    world.open()
    assert world.storage.read(1, 0, 10, 1000) == []
    assert world.read_all(2) == {0: b"new" * 30_000}


def test_a_failed_write_is_told_once_and_ends_everything(world: World) -> None:
    # covers DUR-10
    topic_id = make_topic(world)
    append(world, topic_id, b"safe")
    durable = picture(world.state)
    world.fail_writes()
    called: list[int] = []
    for _ in range(3):
        records = world.state.records_to_open_ledger(topic_id, 8)
        for record in records:
            apply(world.state, record)
        with suppress(StorageFailed):
            world.storage.submit(records, called.append)
    eventually(lambda: world.failures)
    with pytest.raises(StorageFailed):
        world.storage.submit([TopicCreated(9, "x", 1, {})])
    world.storage.close(world.state)
    assert len(world.failures) == 1
    assert called == []
    world.open()
    assert picture(world.state) == durable
    assert world.read_all(1) == {0: b"safe"}
    world.failures.clear()
    ledger_id = open_ledger(world, topic_id)
    append(world, topic_id, b"again")
    assert world.read_all(ledger_id) == {0: b"again"}


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_survive_kills_closes_and_checkpoints(world: World, seed: int) -> None:
    # covers DUR-1, DUR-3, CUR-4, CUR-5, CUR-6
    history = History(world.state, seed)
    random = history.random
    for _ in range(12):
        for _ in range(random.randrange(1, 25)):
            world.submit(history.submit(random.randrange(1, 6)))
            if random.random() < 0.05:
                world.checkpoint()
        before = picture(world.state)
        if random.random() < 0.5:
            world.kill()
        else:
            world.close()
        world.open()
        history.state = world.state
        assert picture(world.state) == before
        for topic in world.state.topics.values():
            for info in topic.ledger.ledgers.values():
                needed = world.state.first_needed_entry(info.ledger_id)
                assert needed is not None
                stored = world.read_all(info.ledger_id, needed)
                expected = history.entries.get(info.ledger_id, [])
                assert stored == {entry_id: expected[entry_id] for entry_id in range(needed, info.entries)}
                for entry_id in stored:
                    count = history.counts[info.ledger_id][entry_id]
                    assert world.counts[info.ledger_id, entry_id] == count
