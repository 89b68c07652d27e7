"""Records of what a topic is to its producers: the epoch of exclusive access (PR-7), its end (TN-13), whether it
takes chunks (CHK-6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from .base import DeclaredRecord
from .codec import I64

if TYPE_CHECKING:
    pass

UNSET: Final = -1
"""In place of an epoch: nobody ever had the topic alone."""


@dataclass(frozen=True, slots=True)
class TopicEpochSet(DeclaredRecord):
    """Somebody has the topic alone from now on, in this epoch; who held it in an earlier one has lost it."""

    topic_id: int
    epoch: int
    TYPE: ClassVar[int] = 17
    LAYOUT: ClassVar = (("topic_id", I64), ("epoch", I64))


@dataclass(frozen=True, slots=True)
class TopicTerminated(DeclaredRecord):
    """The topic takes no more entries, for good."""

    topic_id: int
    TYPE: ClassVar[int] = 18
    LAYOUT: ClassVar = (("topic_id", I64),)


@dataclass(frozen=True, slots=True)
class TopicChunked(DeclaredRecord):
    """The topic takes its first chunk of a large message."""

    topic_id: int
    TYPE: ClassVar[int] = 19
    LAYOUT: ClassVar = (("topic_id", I64),)
