"""The inbox between threads, and a reader's permits."""

from __future__ import annotations

from spark_pulsar.client.errors import ConnectionLost
from spark_pulsar.client.reading.inbox import Inbox
from spark_pulsar.client.reading.permits import Permits
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.entries.entry_blocks import EntryBlock, block_of
from spark_pulsar.wire.protocol.frames import Frame, FrameSplitter
from tests.unit.client.peer import message


def _frames(*parts: bytes) -> list[Frame]:
    return FrameSplitter().feed(b"".join(parts))


def _ids(block: EntryBlock) -> list[tuple[int, int]]:
    return list(zip(block.ledger_ids, block.entry_ids, strict=True))


# ---- inbox


def test_the_inbox_pauses_and_resumes_reading() -> None:
    calls: list[str] = []
    inbox = Inbox(300, lambda: calls.append("pause"), lambda: calls.append("resume"))
    run = _frames(message(1, MessageId(1, 0), b"x" * 100))
    inbox.messages(run)
    assert not calls
    inbox.messages(run)
    inbox.messages(run)
    assert calls == ["pause"]
    assert len(inbox.receive(0)) == 3  # what has piled up comes together
    assert calls[-1] == "resume"
    assert inbox.empty


def test_an_inbox_that_is_given_up_never_pauses_its_connection() -> None:
    calls: list[str] = []
    inbox = Inbox(1, lambda: calls.append("pause"), lambda: calls.append("resume"))
    run = _frames(message(1, MessageId(1, 0)))
    inbox.messages(run)
    inbox.release()
    inbox.messages(run)  # the reader thread had these in hand already
    assert calls == ["pause", "resume"]


def test_the_inbox_hands_out_what_arrived_before_the_loss() -> None:
    inbox = Inbox(1 << 20, lambda: None, lambda: None)
    inbox.messages(_frames(message(1, MessageId(1, 0))))
    inbox.detached(ConnectionLost("gone"))
    assert len(inbox.receive(1_000)) == 1
    assert inbox.receive(1_000_000) == []  # does not wait
    assert isinstance(inbox.lost, ConnectionLost)


def test_frames_of_different_buffers_are_different_runs() -> None:
    inbox = Inbox(1 << 20, lambda: None, lambda: None)
    inbox.messages(
        _frames(message(1, MessageId(1, 0))) + _frames(message(1, MessageId(1, 1)), message(1, MessageId(1, 2)))
    )
    runs = inbox.receive(0)
    assert [len(run) for run in runs] == [1, 2]
    assert _ids(block_of(runs, 1, -1, "t")) == [(1, 0), (1, 1), (1, 2)]


# ---- permits


def test_permits_follow_the_sizes_seen() -> None:
    permits = Permits(1_000_000)
    first = permits.grant()
    assert 0 < first <= 1_000
    assert permits.grant() == 0
    permits.received(first, first, first * 100)
    assert permits.grant() == 10_000  # a budget of 1 MB at 100 bytes each
    permits.received(4_000, 4, 400_000)
    assert permits.grant() == 0  # more than half is still out
    permits.received(1_500, 2, 150_000)
    assert permits.grant() == 5_500


def test_permits_do_not_reach_beyond_the_entries_left() -> None:
    permits = Permits(1 << 30)
    permits.entries_left = 3
    assert permits.grant() == 3
    permits.received(1_000, 1, 100_000)  # one entry, sent whole
    permits.entries_left = 2
    assert permits.grant() == 2_000 - (3 - 1_000)
    permits.received(2_000, 2, 200_000)


def test_permits_start_anew_with_a_consumer() -> None:
    permits = Permits(1_000)
    permits.grant()
    permits.reset()
    assert permits.grant() > 0
    assert permits.grant() == 0
    assert permits.grant_again() > 0


def test_permits_never_exceed_the_receiver_queue() -> None:
    # covers READ-43
    for queue, most in ((3, 3), (0, 1)):
        permits = Permits(1 << 20, most=queue)
        assert permits.grant() == most
        assert permits.grant() == 0
        permits.received(most, 1, 10)
        assert permits.grant() == most
