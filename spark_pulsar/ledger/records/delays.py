"""Records of delayed entries (DEL-7), and their rows in the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from .base import DeclaredRecord


@dataclass(frozen=True, slots=True)
class EntriesDelayed(DeclaredRecord):
    """Entries of a ledger, ascending and appended just before, are not to be delivered before their times."""

    ledger_id: int
    entry_ids: Sequence[int]
    times_ms: Sequence[int]
    TYPE: ClassVar[int] = 100


@dataclass(frozen=True, slots=True)
class DelaysElapsed(DeclaredRecord):
    """Entries of a block that were held back until this time are free. Nothing happens when the block is gone."""

    ledger_id: int
    block: int
    through_ms: int
    TYPE: ClassVar[int] = 101
