"""What happens between the slices in which costly requests are done."""

from collections.abc import Callable
from typing import Any

import pytest

from spark_pulsar.admin.http import slices
from spark_pulsar.model.errors import PulsarError
from tests.unit.broker.world import World


class Between:
    """What happens between two slices; every step is one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.slices = 0
        self.happens: Callable[[int], object] = lambda _: None
        self.refused: list[PulsarError] = []

    def at(self, number: int, change: Callable[[Any], object]) -> None:
        """Has the core do something before the slice of this number."""

        def run(core: Any) -> None:
            try:
                change(core)
            except PulsarError as error:
                self.refused.append(error)

        self.happens = lambda now: self.world.ask(run) if now == number else None


@pytest.fixture
def between(world: World, monkeypatch: pytest.MonkeyPatch) -> Between:
    found, real = Between(world), slices.next_slice

    async def next_slice() -> None:
        found.slices += 1
        found.happens(found.slices)
        await real()

    monkeypatch.setattr(slices, "SLICE_S", 0)
    monkeypatch.setattr(slices, "next_slice", next_slice)
    return found
