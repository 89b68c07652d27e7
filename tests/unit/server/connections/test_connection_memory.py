"""Memory of connections: what is counted, who waits, and who ends, at the limit and past it."""

import logging
from collections.abc import Callable

import pytest

from spark_pulsar.server.connections.connection_memory import (
    FRAME_STALL_S,
    FRAME_TIME_S,
    TICK_S,
    UNREAD_STALL_S,
    ConnectionMemory,
)

MB = 1024 * 1024
BUDGET = 64 * MB
LARGE = 5 * MB


class Holder:
    """A connection."""

    def __init__(self, memory: ConnectionMemory, name: str) -> None:
        self.memory, self.name = memory, name
        self.is_read = self.gets_messages = self.is_open = self.listens = True
        self.unread_bytes = 0

    def restrain(self, *, is_read: bool, gets_messages: bool) -> None:
        self.is_read, self.gets_messages = is_read, gets_messages

    def is_listening(self) -> bool:
        return self.is_read and self.listens

    def count_unread(self) -> int:
        return self.unread_bytes

    def keep_waiting(self) -> None:
        assert not self.is_read

    def end(self) -> str:
        self.is_open = False
        return self.name

    def arrive(self, kept_bytes: int, whole: int = LARGE) -> None:
        """Has so much of a frame."""
        self.memory.received(self, kept_bytes, whole - kept_bytes)

    def finish(self) -> None:
        self.memory.received(self, 0, 0)

    def write(self, unread_bytes: int) -> None:
        self.unread_bytes = unread_bytes
        self.memory.unread(self, unread_bytes)


class Scene:
    """A budget, its clock and its connections."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.calls: list[tuple[float, Callable[[], None]]] = []
        self.memory = ConnectionMemory(BUDGET, lambda: self.now_s, self._call_later)
        self.holders: list[Holder] = []

    def _call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.calls.append((self.now_s + delay_s, call))

    def pass_time(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.calls and self.calls[0][0] <= end_s:
            self.now_s, call = self.calls.pop(0)
            call()
        self.now_s = end_s

    def connect(self, count: int) -> list[Holder]:
        made = [Holder(self.memory, f"session {len(self.holders) + number}") for number in range(count)]
        self.holders += made
        return made

    def check(self) -> None:
        memory = self.memory
        shares = memory.shares.values()
        assert memory.held_bytes == sum(each.held_bytes for each in shares) <= BUDGET
        assert memory.unread_bytes == sum(each.unread_bytes for each in shares)
        assert memory.promised_bytes == sum(each.frame_bytes for each in shares if each.is_promised)
        assert memory.waiting_bytes == sum(each.frame_bytes for each in shares if each.waits)
        assert all(each.held_bytes for each in shares)
        for holder, share in memory.shares.items():
            assert isinstance(holder, Holder)
            assert holder.is_read == (not (share.waits or share.is_slow))
            assert holder.gets_messages == (not share.is_slow)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_what_ends_leaves_nothing(scene: Scene) -> None:
    # covers SEC-30
    one, other = scene.connect(2)
    one.arrive(MB)
    other.arrive(2 * MB)
    other.write(3 * MB)
    assert scene.memory.held_bytes == 6 * MB
    one.finish()
    scene.memory.release(other)
    scene.memory.release(other)
    scene.check()
    assert not scene.memory.shares
    assert not scene.memory.held_bytes
    assert not scene.calls


def test_large_frames_are_read_up_to_half_of_the_budget_and_then_in_turn(scene: Scene) -> None:
    # covers SEC-30
    holders = scene.connect(8)
    for holder in holders:
        holder.arrive(100_000)
    assert [holder.is_read for holder in holders] == [True] * 6 + [False] * 2  # 30 MB of 32
    scene.check()
    holders[3].arrive(LARGE - 1)
    assert not holders[6].is_read
    holders[3].finish()
    assert [holder.is_read for holder in holders] == [True] * 7 + [False]
    scene.check()
    holders[0].arrive(200_000, LARGE - 1)  # the next frame already, which fits in no other way
    assert [holder.is_read for holder in holders] == [False] + [True] * 7
    scene.check()
    assert all(holder.is_open for holder in holders)


def test_small_frames_do_not_wait_for_large_ones(scene: Scene) -> None:
    # covers SEC-30
    large, small = scene.connect(20), scene.connect(17)
    for holder in large:
        holder.arrive(100_000)
    for holder in small:
        holder.arrive(100_000, MB)
    assert [holder.is_read for holder in small] == [True] * 17
    (more,) = scene.connect(1)
    more.arrive(100_000, 2 * MB)
    assert not more.is_read


def test_one_frame_is_always_read(scene: Scene) -> None:
    one, other = scene.connect(2)
    one.arrive(MB, BUDGET)
    other.arrive(MB)
    assert one.is_read
    assert not other.is_read
    one.finish()
    assert other.is_read


def test_a_frame_that_stands_still_ends_when_others_wait(scene: Scene) -> None:
    # covers SEC-30
    holders = scene.connect(12)
    for holder in holders[:6]:
        holder.arrive(LARGE - 1)
    scene.pass_time(FRAME_STALL_S * 5)
    assert all(holder.is_open for holder in holders)
    holders[6].arrive(100_000)
    holders[0].listens = False  # the broker itself reads nothing now
    scene.pass_time(TICK_S)
    assert [holder.is_open for holder in holders[:6]] == [True] + [False] * 5
    assert holders[6].is_read
    scene.check()


def test_a_frame_that_comes_byte_by_byte_has_its_time(scene: Scene) -> None:
    # covers SEC-30
    holders = scene.connect(8)
    for holder in holders:
        holder.arrive(100_000)
    for second in range(int(FRAME_TIME_S) - 1):
        scene.pass_time(1)
        for holder in holders[:6]:
            holder.arrive(100_001 + second)
    assert all(holder.is_open for holder in holders)
    scene.pass_time(TICK_S)
    assert [holder.is_open for holder in holders] == [False] * 6 + [True] * 2
    scene.check()


def test_frames_wait_in_a_line_of_some_length(scene: Scene) -> None:
    # covers SEC-30
    holders = scene.connect(100)
    for holder in holders:
        holder.arrive(100_000)
        scene.check()
    assert sum(holder.is_open for holder in holders) == 6 + 4 * 64 // 5
    assert all(holder.is_open for holder in holders[:57])


def test_unread_output_holds_its_readers_back_from_a_quarter_on(scene: Scene) -> None:
    # covers SEC-30
    holders = scene.connect(4)
    holders[0].write(8 * MB)
    holders[1].write(8 * MB)
    assert all(holder.is_read and holder.gets_messages for holder in holders)
    holders[2].write(1)
    assert not any(holder.is_read or holder.gets_messages for holder in holders[:3])
    assert holders[3].is_read
    holders[3].write(1)
    assert not holders[3].gets_messages
    scene.check()
    holders[3].write(0)
    assert holders[3].is_read
    holders[0].write(2)
    assert not holders[0].is_read
    holders[2].write(0)
    holders[1].write(8 * MB - 2)
    assert holders[0].is_read, "an eighth is left, all go on"
    assert holders[1].gets_messages
    scene.check()


def test_who_takes_nothing_ends_the_largest_first_until_there_is_room(scene: Scene) -> None:
    # covers SEC-30
    holders = scene.connect(5)
    for holder, size in zip(holders, (4, 5, 6, 4, 1), strict=True):
        holder.write(size * MB)
    for _ in range(int(UNREAD_STALL_S) - 1):
        holders[3].unread_bytes -= 1  # which nobody tells
        scene.pass_time(1)
    assert all(holder.is_open for holder in holders)
    holders[3].unread_bytes -= 1
    scene.pass_time(TICK_S)
    assert [holder.is_open for holder in holders] == [False, False, False, True, True]
    assert not scene.memory.is_short
    scene.check()


def test_past_the_budget_those_end_who_hold_most(scene: Scene) -> None:
    # covers SEC-30
    holders = scene.connect(64)
    for holder in holders:
        holder.write(MB)
    assert scene.memory.held_bytes == BUDGET
    holders[7].write(MB + 2)
    holders[9].unread_bytes = MB // 2  # it takes what it gets
    assert not holders[7].is_open
    assert holders[9].is_open
    assert sum(holder.is_open for holder in holders) == 56
    scene.check()


def test_a_frame_that_comes_along_outlives_what_others_hold(scene: Scene) -> None:
    # covers SEC-30
    sender, *others = scene.connect(100)
    sender.arrive(LARGE - 100)
    for holder in others:
        scene.pass_time(FRAME_STALL_S / 2)
        sender.arrive(LARGE - 99 + others.index(holder))
        if holder.is_open:
            holder.write(2 * MB)
        scene.check()
    assert sender.is_open
    scene.pass_time(FRAME_STALL_S)
    (last,) = scene.connect(1)
    last.write(BUDGET)
    assert not sender.is_open, "it stands still"


def test_few_lines_tell_of_many_connections(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    for _ in range(20):
        for holder in scene.connect(10):
            holder.write(60 * MB)
    assert len(caplog.records) == 5
    assert "session 0 closed" in caplog.records[0].message
    scene.pass_time(20)
    for holder in scene.connect(2):
        holder.write(60 * MB)
    assert "195 connections before it" in caplog.records[5].message
