"""Findings of the doctor: a line each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """State of a checked item."""

    OK = "ok"
    WARN = "warn"
    """Something does not work, or not well; what most need does."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    check: str
    state: State
    found: str
    advice: str = ""
    """Advice: what to do about it."""
