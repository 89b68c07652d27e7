"""Who uses what: since when nobody does, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .idleness import Idleness
from .inactivity import Inactivity
from .silence import Silence

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

    from .judge import Judge


class Uses:
    """Of subscriptions and of topics, and by producers."""

    def __init__(self, judge: Judge) -> None:
        self.idleness = Idleness(judge)
        self.inactivity = Inactivity(judge)
        self.silence = Silence(judge)

    def begin_life(self, now_ms: int) -> None:
        """A broker starts."""
        self.idleness.begin_life(now_ms)
        self.inactivity.begin_life()
        self.silence.begin_life()

    def note(self, core: Core) -> None:
        """Something happened, and its records are not judged yet."""
        self.idleness.note(core)
        self.inactivity.note(core)

    def check(self, core: Core) -> None:
        """A turn is over and judged. Violation when something is there that nobody used for too long."""
        self.idleness.check()
        self.inactivity.check(core)
        self.silence.check(core)
