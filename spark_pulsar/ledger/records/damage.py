"""Records of damage: entries that storage found unreadable, and the operator's decision to go on without them.

A damaged topic is read-only until the damage is accepted (`spark-pulsar check DIR --repair`): nothing is skipped in
silence, and nothing new is built upon what may be missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import DeclaredRecord


@dataclass(frozen=True, slots=True)
class TopicDamaged(DeclaredRecord):
    """Damage of the topic was found; see `Damage`. The same damage found again changes nothing."""

    topic_id: int
    ledger_id: int
    first: int
    end: int
    place: str
    text: str
    TYPE: ClassVar[int] = 90


@dataclass(frozen=True, slots=True)
class DamageAccepted(DeclaredRecord):
    """All damage of the topic that is known now is accepted: every cursor passes over the lost entries."""

    topic_id: int
    TYPE: ClassVar[int] = 91
