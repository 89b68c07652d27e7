"""Costly requests in slices: the loop serves all other connections between two of them.

A costly read, a rendered answer or a change is a generator that yields after each little step. All requests of the
admin API share the slices: one slice of one request in each round of the loop, in rotation.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from spark_pulsar.broker.topic_log import disk_full
from spark_pulsar.model.errors import PulsarError

from .gate import Answer
from .refusals import Refused

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

    from .gate import Gate

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
Steps = Generator[None, None, Result]
"""Work in little steps, and its result."""

_PATIENCE_S: Final = 60.0
"""Longest time that a request takes unless the core was restarted meanwhile or the disk answers no more."""

SLICE_S: Final = 0.002
"""Time after which a slice ends with the step that it is at."""


class _Rotation:
    """Requests that wait for their next slice."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_due = False

    async def next_slice(self) -> None:
        """Waits until the request may do a slice."""
        allowed: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(allowed)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._allow_one)
        await allowed

    def _allow_one(self) -> None:
        waiting = self._waiting
        while waiting:
            allowed = waiting.popleft()
            if not allowed.done():  # else its client is gone
                allowed.set_result(None)
                break
        self._is_due = bool(waiting)
        if waiting:
            self._loop.call_soon(self._allow_one)


_rotations: WeakKeyDictionary[asyncio.AbstractEventLoop, _Rotation] = WeakKeyDictionary()


async def next_slice() -> None:
    """Waits until the request of this task may do a slice."""
    loop = asyncio.get_running_loop()
    rotation = _rotations.get(loop)
    if rotation is None:
        rotation = _rotations[loop] = _Rotation(loop)
    await rotation.next_slice()


def finish(steps: Steps[Result]) -> Result:
    """Does all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def at_once(in_steps: Callable[Arguments, Steps[Result]]) -> Callable[Arguments, Result]:
    """Makes the function that does all steps of a change in one turn of the core."""

    def done(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return finish(in_steps(*args, **kwargs))

    return done


class _Slices(Generic[Result]):
    """Steps of one request, done slice by slice."""

    def __init__(self, steps: Steps[Result]) -> None:
        self._steps = steps
        self.result: Result | None = None

    @classmethod
    def ended(cls, result: Result) -> _Slices[Result]:
        """Makes those of a request that has its result already."""
        slices = cls(_nothing(result))
        slices.result = result
        return slices

    def do_one(self) -> bool:
        """Does the steps of one slice; false when they were the last ones."""
        end_s = time.perf_counter() + SLICE_S
        try:
            while True:
                next(self._steps)
                if time.perf_counter() >= end_s:
                    return True
        except StopIteration as end:
            self.result = end.value
            return False


def _nothing(result: Result) -> Steps[Result]:
    yield
    return result


async def read_in_slices(steps: Steps[Result]) -> Result:
    """Does the steps of a request that changes nothing."""
    slices = _Slices(steps)
    await next_slice()
    while slices.do_one():
        await next_slice()
    result: Result = slices.result  # type: ignore[assignment]
    return result


async def change_in_slices(gate: Gate, begin: Callable[[Core], object]) -> object:
    """Runs a change in the core; one that is a generator is done slice by slice, each in a turn of the core, and the
    next one when the changes of the one before are on disk. Returns its result."""

    def begin_slices(core: Core) -> tuple[_Slices[object], bool]:
        changed = begin(core)
        if isinstance(changed, Generator):
            slices = _Slices(changed)
            return slices, slices.do_one()
        return _Slices.ended(changed), False

    slices, is_under_way = await gate.submit(begin_slices)
    while is_under_way:
        await next_slice()
        is_under_way = await gate.submit(lambda _: slices.do_one())
    return slices.result


async def run_in_slices(
    gate: Gate, begin: Callable[[Core, Callable[[Answer | PulsarError], None]], object], *, changes: bool = False
) -> Answer:
    """Runs `begin` in the core, in slices if it is a generator, with a function for its answer; returns the answer once
    all changes up to it are on disk. Where the disk takes nothing, the answer is returned at once, unless the request
    `changes` something.

    Raises what `begin` raises, or the error it answers with; 503 when no answer comes, because the core was restarted
    or because reading takes too long.
    """
    answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def settle(answer: Answer | PulsarError) -> None:
        if answered.done():
            return
        if isinstance(answer, PulsarError):
            answered.set_exception(answer)
        else:
            answered.set_result(answer)

    def run(core: Core) -> object:
        def answer_with(answer: Answer | PulsarError) -> None:
            def refuse(error: PulsarError) -> None:
                settle(error if changes else answer)

            disk_full.answer_when_durable(core, lambda: settle(answer), refuse)

        return begin(core, answer_with)

    await change_in_slices(gate, run)
    try:
        return await asyncio.wait_for(answered, _PATIENCE_S)
    except TimeoutError as error:
        if _has_ended(gate):
            raise Refused(503, "The broker was restarted meanwhile: send the request again") from error
        raise Refused(503, f"Not answered within {_PATIENCE_S:g} s: reading from disk takes too long") from error


def _has_ended(gate: Gate) -> bool:
    """Returns whether the core of the request has ended: it refuses requests at once."""
    answer = gate.submit(lambda _: None)
    if answer.done():
        return answer.exception() is not None
    answer.cancel()
    return False
