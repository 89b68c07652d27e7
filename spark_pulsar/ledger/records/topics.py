"""Records of a topic towards its producers: the epoch of exclusive access (PR-7), termination (TN-13), chunks
(CHK-6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from .base import DeclaredRecord

UNSET: Final = -1
"""Stands in place of an epoch: no producer ever had exclusive access."""


@dataclass(frozen=True, slots=True)
class TopicEpochSet(DeclaredRecord):
    """A producer has exclusive access from now on, in this epoch; the holder of an earlier epoch has lost it."""

    topic_id: int
    epoch: int
    TYPE: ClassVar[int] = 17


@dataclass(frozen=True, slots=True)
class TopicTerminated(DeclaredRecord):
    """The topic takes no more entries, for good."""

    topic_id: int
    TYPE: ClassVar[int] = 18


@dataclass(frozen=True, slots=True)
class TopicChunked(DeclaredRecord):
    """The topic takes its first chunk of a large message."""

    topic_id: int
    TYPE: ClassVar[int] = 19
