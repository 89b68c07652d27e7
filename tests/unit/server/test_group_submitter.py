"""Small groups wait for the one under way, so that the loop can write them itself; order is always kept."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from spark_pulsar.broker.turn.effects import AppendRecords
from spark_pulsar.ledger.state.durable_state import CounterSet
from spark_pulsar.server.group_submitter import HELD_BYTES, HELD_RECORDS, GroupSubmitter
from tests.contract.memory_storage import MemoryDisk, MemoryStorage
from tests.unit.server.scene import within


class Desk:
    """Submits groups of records that count up, to a storage that is synced by hand."""

    def __init__(self, disk: MemoryDisk, *, is_quick: bool) -> None:
        self.storage, self.state = MemoryStorage.open(disk, auto=False)
        self.storage.is_quick = is_quick
        self.durable: list[int] = []
        """Groups that were heard of."""
        self.submitting = GroupSubmitter(
            asyncio.get_running_loop(), self.storage, self.durable.append, lambda group: self.durable.append(-group)
        )
        self.last = 0

    def submit(self, records: int = 1, waiting_bytes: int = 100) -> bool:
        """Submits the next group, and tells whether it reached the storage."""
        self.last += 1
        before = self.storage.unwritten_bytes
        group = AppendRecords(self.last, [CounterSet("n", self.last)] * records)
        self.submitting.submit(group, waiting_bytes, at_once=True)
        return self.storage.unwritten_bytes > before

    async def sync(self) -> None:
        """Makes the storage durable, and the loop hear of it."""
        self.storage.sync()
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)  # behind what the storage told
        await turn


@asynccontextmanager
async def playing(*, is_quick: bool = True) -> AsyncIterator[Desk]:
    """A scene, and afterwards a recovery that finds everything that was submitted in it."""
    disk = MemoryDisk()
    desk = Desk(disk, is_quick=is_quick)
    yield desk
    desk.submitting.hand_over()
    await desk.sync()
    assert desk.durable[-1] == desk.last
    assert desk.durable == sorted(desk.durable)
    _, state = MemoryStorage.open(disk)
    assert state.counters["n"] == desk.last


played, slowly = within(playing), within(partial(playing, is_quick=False))


@slowly
async def test_a_slow_disk_gets_everything_at_once(desk: Desk) -> None:
    assert all(desk.submit() for _ in range(5))
    await desk.sync()
    assert desk.durable == [5], "heard of once"


@played
async def test_on_a_quick_disk_small_groups_wait_for_what_is_under_way(desk: Desk) -> None:
    # covers DUR-2
    assert desk.submit()
    assert not any(desk.submit() for _ in range(3))
    desk.submitting.go_on()
    assert desk.storage.unwritten_bytes, "the first one is still under way"
    await desk.sync()
    assert desk.durable == [1]
    assert not desk.storage.unwritten_bytes
    desk.submitting.go_on()
    assert desk.storage.unwritten_bytes
    await desk.sync()
    assert desk.durable == [1, 4]
    assert desk.submit(), "nothing is under way"


@played
async def test_what_is_large_waits_for_nothing_and_overtakes_nothing(desk: Desk) -> None:
    assert desk.submit()
    assert not desk.submit()
    assert desk.submit(waiting_bytes=HELD_BYTES + 1)
    assert not desk.submit()
    assert desk.submit(records=HELD_RECORDS + 1)
    await desk.sync()
    assert desk.durable == [5]


@played
async def test_not_too_many_records_wait(desk: Desk) -> None:
    assert desk.submit()
    assert not any(desk.submit() for _ in range(HELD_RECORDS))
    assert desk.submit()
    await desk.sync()


@played
async def test_what_waits_is_written_before_a_checkpoint_and_at_the_end(desk: Desk) -> None:
    assert desk.submit()
    assert not desk.submit()
    before = desk.storage.unwritten_bytes
    desk.submitting.hand_over()
    assert desk.storage.unwritten_bytes > before
    desk.submitting.hand_over()
    assert not desk.submit(), "waits again; `playing` ends the scene"


@played
async def test_nothing_is_told_after_the_end(desk: Desk) -> None:
    assert desk.submit()
    desk.submitting.close()
    await desk.sync()
    assert desk.durable == []
    desk.durable.append(desk.last)
