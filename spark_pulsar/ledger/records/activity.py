"""Record of who uses a subscription: since when nobody does (CUR-17)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from .base import DeclaredRecord
from .codec import I64

if TYPE_CHECKING:
    pass

IN_USE: Final = -1
"""In place of a time: a consumer is connected."""


@dataclass(frozen=True, slots=True)
class CursorIdle(DeclaredRecord):
    """Since this time no consumer is connected, or `IN_USE`. Nothing happens when the cursor is gone."""

    cursor_id: int
    since_ms: int
    TYPE: ClassVar[int] = 60
    LAYOUT: ClassVar = (("cursor_id", I64), ("since_ms", I64))
