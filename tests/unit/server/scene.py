"""An engine on a loop whose turns and time a test makes, and the peers of its connections."""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.server.clock import Clock
from spark_pulsar.server.connections.admission import Admission
from spark_pulsar.server.connections.connection import Connection
from spark_pulsar.server.engine import Engine, SharedByConnections
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import FrameSplitter, command_frame, parse_command
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.contract.memory_storage import MemoryDisk, MemoryStorage

CONNECT = command_frame(requests.connect("test"))
START_S = 1_795_000_000


class Timer:
    """A call at some time."""

    def __init__(self, when_s: float, callback: Callable[[], None]) -> None:
        self.when_s, self.callback, self.is_cancelled = when_s, callback, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """The loop of an engine, one iteration at a time."""

    def __init__(self) -> None:
        self.now_s = float(START_S)
        self._soon: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._timers: list[Timer] = []

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        self._soon.append((callback, args))

    call_soon_threadsafe = call_soon

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self.now_s + delay_s, callback)
        self._timers.append(timer)
        return timer

    @property
    def timers(self) -> list[Callable[[], None]]:
        return [each.callback for each in self._timers if not each.is_cancelled]

    def iterate(self) -> bool:
        """Runs one iteration, and tells whether there was anything to do."""
        due, self._soon = self._soon, []
        for callback, args in due:
            callback(*args)
        return bool(due)

    def settle(self) -> None:
        for _ in range(100_000):
            if not self.iterate():
                return
        raise AssertionError("it never ends")

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        due = [each for each in self._timers if each.when_s <= self.now_s]
        self._timers = [each for each in self._timers if each.when_s > self.now_s]
        for each in due:
            if not each.is_cancelled:
                each.callback()
        self.settle()


class Peer:
    """The other side of a connection, and the transport in between, which passes nothing on until `take` is called."""

    def __init__(self, engine: Engine, *, reads: bool = True, first: bytes = CONNECT, host: str = "127.0.0.1") -> None:
        self.host = host
        self.connection = engine.new_connection()
        self.reads = reads
        self.unread = b""
        self.is_read = True
        self.is_full = False
        self.closing = False
        self._splitter = FrameSplitter(1 << 30)
        self._got: list[BaseCommand] = []
        self.connection.connection_made(cast("asyncio.Transport", self))
        self.arrive(first)

    # The transport

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self._high, self._low = high, low

    def get_extra_info(self, _name: str) -> tuple[str, int]:
        return self.host, 1

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return len(self.unread)

    def write(self, data: bytes) -> None:
        self.unread += data
        if self.reads:
            self.take(len(self.unread))
        if len(self.unread) > self._high and not self.is_full:
            self.is_full = True
            self.connection.pause_writing()

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def close(self) -> None:
        self.closing = True

    abort = close

    # The peer

    def arrive(self, data: bytes) -> None:
        assert self.is_read, "no more than one read is held"
        self.connection.data_received(data)

    def take(self, count: int) -> None:
        """Reads `count` of the bytes that were written."""
        taken, self.unread = self.unread[:count], self.unread[count:]
        self._got += [parse_command(*frame)[0] for frame in self._splitter.feed(taken)]
        if self.is_full and len(self.unread) <= self._low:
            self.is_full = False
            self.connection.resume_writing()

    def got(self, kind: BaseCommand.Type.ValueType) -> int:
        """Counts the commands of this kind since the last count."""
        got, self._got = self._got, []
        return sum(each.type == kind for each in got)


class SceneClock(Clock):
    """A clock that a test sets."""

    def __init__(self, read_ms: Callable[[], int]) -> None:
        super().__init__()
        self._read_ms = read_ms

    def now_ms(self) -> int:
        return self._read_ms()

    def ahead_ms(self) -> int:
        return 0


class Scene:
    """An engine and its loop."""

    def __init__(self, admission: Admission | None = None) -> None:
        self.loop = Loop()
        storage, state = MemoryStorage.open(MemoryDisk(), on_failed=None, auto=True)
        self.stopped: list[BaseException] = []
        self.engine = Engine(
            cast("asyncio.AbstractEventLoop", self.loop),
            storage,
            state,
            BrokerConfig(),
            SceneClock(lambda: int(self.loop.now_s * 1000)),
            self.stopped.append,
            SharedByConnections(admission=admission),
        )

    def connect(self, *, reads: bool = True, first: bytes = CONNECT, host: str = "127.0.0.1") -> Peer:
        peer = Peer(self.engine, reads=reads, first=first, host=host)
        self.loop.settle()
        return peer

    def is_served(self, connection: Connection) -> bool:
        return connection.session_id in self.engine.core.sessions


def within(
    opened: Callable[[], AbstractAsyncContextManager[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Runs a coroutine test within a context, whose value is its first parameter; the others are fixtures."""

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        async def run(**fixtures: Any) -> None:
            async with opened() as value:
                await test(value, **fixtures)

        signature = inspect.signature(test)
        run.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.place_as = test  # type: ignore[attr-defined]  # where pytest says that it is
        return run

    return decorate
