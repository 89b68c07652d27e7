"""Bounds of WebSockets, at the limit and just past it: unread output, answers, deliveries, opened entries."""

import asyncio

import pytest

from spark_pulsar.model.positions.ids import Position
from spark_pulsar.server.websocket import deliveries, opened_bytes, outbox
from spark_pulsar.server.websocket.consumer_messages import TooLarge, size_of
from spark_pulsar.server.websocket.deliveries import Deliveries, Delivery
from spark_pulsar.server.websocket.opened_bytes import FREE_BYTES, MAX_OPENED_BYTES, OpenedBytes
from spark_pulsar.server.websocket.outbox import Outbox
from spark_pulsar.server.websocket.pipe import Pipe
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.protocol.frames import Frame, command_frame
from spark_pulsar.wire.pulsar_api_pb2 import LZ4, MessageMetadata


class _Engine(asyncio.Protocol):
    """The engine's side of a pipe, which notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.heard.append("made")

    def data_received(self, data: bytes) -> None:
        self.heard.append(f"data {len(data)}")

    def pause_writing(self) -> None:
        self.heard.append("pause")

    def resume_writing(self) -> None:
        self.heard.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append("lost")


async def test_a_pipe_counts_what_its_client_has_not_taken() -> None:
    # covers WS-9
    engine, frames, ends = _Engine(), list[Frame](), list[str]()
    pipe = Pipe(asyncio.get_running_loop(), {"peername": ("::1", 1)}, frames.extend, lambda: ends.append("end"))
    pipe.open(engine)
    assert pipe.get_extra_info("peername") == ("::1", 1)
    ping = command_frame(commands.ping())
    pipe.set_write_buffer_limits(2 * len(ping), len(ping))
    pipe.write(ping)
    pipe.write(ping)
    assert engine.heard == ["made"]  # at the limit
    pipe.write(ping)
    assert engine.heard == ["made", "pause"]
    await asyncio.sleep(0)
    assert len(frames) == 3
    assert pipe.get_write_buffer_size() == 3 * len(ping)
    pipe.release(len(ping))
    assert engine.heard == ["made", "pause"]
    pipe.release(len(ping))
    assert engine.heard == ["made", "pause", "resume"]
    pipe.write(ping)
    pipe.close()
    pipe.write(ping)  # too late
    pipe.send(b"1234")
    await asyncio.sleep(0)
    assert (len(frames), engine.heard[3:], ends) == (4, ["lost"], ["end"])


async def test_a_pipe_waits_while_the_engine_does_not_read() -> None:
    # covers WS-9, PR-15
    pipe = Pipe(asyncio.get_running_loop(), {}, lambda _frames: None, lambda: None)
    pipe.open(_Engine())
    await pipe.may_send()
    pipe.pause_reading()
    waiting = asyncio.ensure_future(pipe.may_send())
    await asyncio.sleep(0)
    assert not waiting.done()
    pipe.resume_reading()
    await waiting
    pipe.pause_reading()
    pipe.abort()  # nobody waits for an end
    await pipe.may_send()


async def test_a_client_is_not_read_from_while_it_leaves_answers() -> None:
    # covers WS-9
    answers = Outbox()
    answers.put("x" * outbox.MAX_CHARACTERS)
    await answers.has_room()  # at the limit
    answers.put("y")
    waiting = asyncio.ensure_future(answers.has_room())
    await asyncio.sleep(0)
    assert not waiting.done()
    answers.close(1012, "over" * 100)
    assert answers.closing is not None
    assert len(answers.closing[1]) == 123
    await waiting


def test_deliveries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers WS-11
    monkeypatch.setattr(deliveries, "MAX_ENTRIES", 2)
    at_client = Deliveries()
    for entry_id in range(2):
        at_client.add(Delivery(7, [Position(1, entry_id)], 0b11))
    assert at_client.consumer_of(1, 0) == 7
    at_client.add(Delivery(7, [Position(1, 2)], 0b11))
    assert at_client.consumer_of(1, 0) is None
    assert at_client.acknowledge(1, 1, 0, 2) == []
    assert at_client.acknowledge(1, 1, 1, 2) == [Position(1, 1)]
    assert at_client.acknowledge(1, 0, 1, 2) == []  # forgotten: the rest of its batch is not known
    assert at_client.acknowledge(1, 0, 0, 2) == [Position(1, 0)]


def test_large_entries_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers WS-10
    large = FREE_BYTES + 1
    budget, first, second = OpenedBytes(2 * large), Outbox(), Outbox()
    assert budget.acquire(FREE_BYTES, first.wake)
    assert budget.held_bytes == 0
    assert budget.acquire(large, first.wake)
    assert budget.acquire(large, first.wake)  # at the limit
    assert not budget.acquire(large, second.wake)
    budget.release(large)
    assert budget.acquire(large, second.wake)
    assert not budget.acquire(opened_bytes.MAX_OPENED_BYTES, second.wake)
    budget.release(large)
    budget.release(large)
    assert budget.acquire(MAX_OPENED_BYTES, second.wake)  # one is always opened


def test_an_entry_has_a_largest_size() -> None:
    # covers WS-10
    metadata = MessageMetadata(compression=LZ4, uncompressed_size=MAX_OPENED_BYTES)
    assert size_of(metadata, b"") == MAX_OPENED_BYTES
    metadata.uncompressed_size += 1
    with pytest.raises(TooLarge):
        size_of(metadata, b"")
    chunk = MessageMetadata(num_chunks_from_msg=9, total_chunk_msg_size=MAX_OPENED_BYTES + 1)
    with pytest.raises(TooLarge):
        size_of(chunk, b"")
