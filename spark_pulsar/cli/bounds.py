"""The first and the last message that `read` prints, as its options `--from` and `--until` name them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import typer

from spark_pulsar.cli.values import time_s
from spark_pulsar.model.positions.ids import InvalidMessageId, MessageId

_AGO: Final = re.compile(r"-([0-9]+[smhdwy])")
_MILLIS: Final = re.compile(r"[0-9]{11,15}")
_WANT: Final = "a message id such as 12:0:-1:-1, a time such as 2026-11-24T08:30 or 1795484960636, or -2h"


@dataclass(frozen=True, slots=True)
class Bound:
    """An end of a read: a message, a publish time, or the beginning or end of the topic where both are None."""

    message_id: MessageId | None = None
    time_ms: int | None = None
    is_latest: bool = False

    @property
    def partition(self) -> int:
        """The partition that a message id names, -1 without."""
        return -1 if self.message_id is None else self.message_id.partition


def parse_bound(text: str, option: str, *, words: tuple[str, ...]) -> Bound:
    """Reads the value of an option. Raises typer.BadParameter."""
    given = text.strip()
    if given.lower() in words:
        return Bound(is_latest=given.lower() == "latest")
    if ago := _AGO.fullmatch(given.lower()):
        return Bound(time_ms=max(0, now_ms() - time_s(ago[1]) * 1000))
    if _MILLIS.fullmatch(given):
        return Bound(time_ms=int(given))
    try:
        return Bound(message_id=MessageId.parse(given))
    except InvalidMessageId:
        pass
    try:
        return Bound(time_ms=round(datetime.fromisoformat(given).astimezone().timestamp() * 1000))
    except (ValueError, OverflowError):
        pass
    raise typer.BadParameter(f"want {', '.join(words)}, {_WANT}; got {text!r}", param_hint=option)


def now_ms() -> int:
    """Returns the time of this machine's clock."""
    return time.time_ns() // 1_000_000


def order_of(message_id: MessageId) -> tuple[int, int, int]:
    """Returns the place of a message in its partition."""
    return message_id.ledger_id, message_id.entry_id, message_id.batch_index
