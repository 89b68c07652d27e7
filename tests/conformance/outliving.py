"""Tests of what outlives the end of a broker: all of them are done to one broker, which ends once.

    @outlives_a_kill
    def test_of_a_policy(broker: Broker) -> Generator[None]:
        set_policy(broker)
        yield
        assert policy_of(broker)

What is before the `yield` of each test is done first, then the broker ends and starts again, and the rest of each test
is the test that is reported. On our broker those of a module share an end, on Apache Pulsar those of all modules: the
same worker of xdist runs them, and each start takes the processors ten seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from tests.brokers import Broker
from tests.conftest import SpecialBrokers

Halves = Generator[None, None, None]
"""What a test does before the end of its broker, and after it."""
Life = Callable[[Broker], Halves]


class Lives:
    """The tests that share an end of their broker. One that fails takes its broker along, as it may have left it dead;
    those that have not ended yet begin again on another one."""

    def __init__(self, brokers: SpecialBrokers, *, is_kill: bool) -> None:
        self._brokers = brokers
        self._is_kill = is_kill
        self._broker: Broker | None = None
        self._begun: dict[Life, Halves] = {}
        self._failed: dict[Life, BaseException] = {}

    def begin(self, lives: list[Life]) -> None:
        """Does what is before the end, of all tests, and ends the broker."""
        broker = self._brokers.current()
        if broker is not self._broker:
            lives, self._broker = [*self._begun, *lives], broker
            self._begun.clear()
        for life in lives:
            begun = life(broker)
            try:
                next(begun)
            except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - it is raised by `finish`
                self._failed[life] = error
                self._brokers.drop()
                self.begin([other for other in lives if other not in self._begun and other not in self._failed])
                return
            self._begun[life] = begun
        if self._is_kill:
            broker.kill()
        broker.restart()

    def finish(self, life: Life) -> None:
        """Does what is after the end; the second try of a test has an end of its own."""
        if life not in self._failed and (life not in self._begun or self._brokers.current() is not self._broker):
            self.begin([] if life in self._begun else [life])
        if life in self._failed:
            raise self._failed.pop(life)
        try:
            for _ in self._begun.pop(life):
                pytest.fail(f"{life.__name__} has more than one yield")
        except (Exception, pytest.fail.Exception):
            self._brokers.drop()
            raise


def lives_with(end: str, brokers: SpecialBrokers, request: pytest.FixtureRequest) -> Iterator[Lives]:
    """Yields the tests that have that end, in reach of a fixture, with their first half done."""
    broker = brokers.current()
    mark = broker.opened()
    items = [item for item in request.session.items if request.scope == "session" or item.path == request.path]
    functions = [item.function for item in items if isinstance(item, pytest.Function)]
    lives = Lives(brokers, is_kill=end == "kill")
    lives.begin([function.life for function in functions if getattr(function, "end", "") == end])
    yield lives
    broker.close_since(mark)


def _as_test(life: Life, test: Any, end: str) -> Any:
    test.__name__, test.__doc__, test.__module__ = life.__name__, life.__doc__, life.__module__
    test.place_as = life  # where pytest says that the test is
    test.life, test.end = life, end
    return test


def outlives_a_kill(life: Life) -> Callable[[Lives], None]:
    """Makes a test of a generator that yields where its broker is killed."""

    def test(after_a_kill: Lives) -> None:
        after_a_kill.finish(life)

    return _as_test(life, test, "kill")


def outlives_a_stop(life: Life) -> Callable[[Lives], None]:
    """Makes a test of a generator that yields where its broker is stopped in order."""

    def test(after_a_stop: Lives) -> None:
        after_a_stop.finish(life)

    return _as_test(life, test, "stop")
