"""Mutations: rules that are broken on purpose, and the search for a history that notices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import pytest

from spark_pulsar.broker.entities.core import Core
from spark_pulsar.ledger.state.apply import apply

from .history import run
from .profile import NEWEST, Profile, draw

MAX_SEEDS = 600


@dataclass(frozen=True, slots=True)
class Mutation:
    """An attribute of the broker that does something else."""

    owner: Any
    name: str
    broken: Any
    features: str = ""
    """Features that a history needs to notice, with `+` between them."""
    seed: int = 1
    """The search begins there. A seed that no longer finds its mutation costs a longer search, and may be replaced by
    the one that is printed (`-s`)."""
    is_wrapper: bool = False
    """True when `broken` is given what it replaces, before the arguments."""
    silenced: tuple[Any, str] | None = None
    """A check of the broker's own, which would come first."""

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Breaks the rule."""
        broken, real = self.broken, getattr(self.owner, self.name)
        if self.is_wrapper:
            broken = lambda *args, **more: self.broken(real, *args, **more)  # noqa: E731
        patch.setattr(self.owner, self.name, broken)
        if self.silenced is not None:
            patch.setattr(*self.silenced, lambda *_: None)


Mutations = dict[str, Mutation]


def breaks(
    known: Mutations, owner: Any, name: str, features: str = "", seed: int = 1, **more: Any
) -> Callable[[Any], Any]:
    """Adds a mutation: the function that it decorates, which is given the real one and its arguments."""

    def add(broken: Any) -> Any:
        known[broken.__name__] = Mutation(owner, name, broken, features, seed, is_wrapper=True, **more)
        return broken

    return add


def in_memory_only(kind: type, features: str = "", seed: int = 1) -> Mutation:
    """Returns the mutation by which records of a kind are applied and never written."""

    def append(real: Any, self: Core, record: Any) -> None:
        if isinstance(record, kind):
            apply(self.state, record)
        else:
            real(self, record)

    return Mutation(Core, "append", append, features, seed, is_wrapper=True)


def find(
    mutation: Mutation,
    patch: pytest.MonkeyPatch,
    *,
    storage: str | None = None,
    fits: Callable[[Profile], bool] = lambda _: True,
) -> None:
    """Runs histories that fit until one notices a mutation."""
    mutation.apply(patch)
    features = set(filter(None, mutation.features.split("+")))
    without = NEWEST - features
    profiles = (draw(seed, without=without) for seed in count(mutation.seed))
    seeds = (each.seed for each in profiles if each.features.issuperset(features) and fits(each))
    for seed in islice(seeds, MAX_SEEDS):
        try:
            run(seed, storage=storage, without=without)
        except Exception:  # noqa: BLE001 - any failure is a finding
            print(f"found by seed {seed}")
            return
    pytest.fail(f"not found within {MAX_SEEDS} seeds")
