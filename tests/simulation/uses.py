"""Uses of subscriptions and topics: since when there are none, and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .idleness import Idleness
from .inactivity import Inactivity
from .silence import Silence

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

    from .judge import Judge


class Uses:
    """Uses of subscriptions, of topics, and by producers."""

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
        """Checks a turn that is over and judged. Violation when a subscription or topic exists that was unused for too
        long."""
        self.idleness.check()
        self.inactivity.check(core)
        self.silence.check(core)
