"""When clients that copy a topic in transactions, and their broker, are killed."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import dataclass
from typing import Final, Literal

CRASHES: Final = int(os.environ.get("CRASHES", "0"))
"""How many; 0: as many as a test has time for."""
SEED: Final = int(os.environ.get("CRASH_SEED", "20261126"))
STEPS: Final = ("received", "sent", "acknowledged", "committing", "committed")
MOST_DELAY_S: Final = {"committing": 0.004}
"""An answer to a commit takes a few milliseconds."""


@dataclass(frozen=True, slots=True)
class Crash:
    """When something is killed: after so many transactions, so long after a step of the next one."""

    victim: Literal["client", "broker"]
    transactions: int
    step: str
    delay_s: float

    def wait(self) -> None:
        """Returns when it is to happen, called at its step."""
        threading.Event().wait(self.delay_s)


def crashes(seed: str, count: int, *, with_broker: bool) -> list[Crash]:
    """Crashes by a seed, the first two in a commit; every fourth may be the broker's."""
    choices = random.Random(seed)
    found = []
    for number in range(count):
        step = "committing" if number < 2 else choices.choice(STEPS)
        victim: Literal["client", "broker"] = "broker" if with_broker and number % 4 == 1 else "client"
        delay_s = choices.uniform(0, MOST_DELAY_S.get(step, 0.02))
        found.append(Crash(victim, choices.randrange(3), step, delay_s))
    return found
