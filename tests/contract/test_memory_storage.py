from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.durable_state import CounterSet
from tests.contract.memory_storage import MemoryDisk, MemoryStorage


def test_nothing_is_durable_before_it_is_synced() -> None:
    # covers ML-5
    disk = MemoryDisk()
    storage, _ = MemoryStorage.open(disk, auto=False)
    groups: list[int] = []
    for number in range(3):
        storage.submit([CounterSet("n", number)], groups.append)
    assert (groups, storage.unwritten_bytes > 0) == ([], True)
    storage.sync(2)
    assert groups == [1, 1]
    storage.crash()
    storage.sync()
    assert groups == [1, 1]
    _, state = MemoryStorage.open(disk)
    assert state.counters["n"] == 1


def test_a_checkpoint_stands_at_the_submits_before_it() -> None:
    disk = MemoryDisk()
    storage, state = MemoryStorage.open(disk, auto=False)
    for number in range(4):
        record = CounterSet("n", number)
        apply(state, record)
        storage.submit([record])
        if number == 1:
            storage.checkpoint(state)
    assert disk.rows == {}, "rows never overtake the records they contain"
    storage.sync(3)
    assert disk.checkpoint_group == 1
    storage.crash()
    storage, state = MemoryStorage.open(disk)
    assert (state.counters["n"], storage.report.checkpoint_group, storage.report.groups) == (1, 1, 0)
