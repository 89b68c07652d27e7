"""Positions: the **next message to read** of a topic partition (OFFSET-1).

A position is ledger, entry and index inside the batch, index 0 being the first message of the entry. It may point at an
entry that does not exist yet (the one after the last) or no longer. An end is exclusive, so `start == end` is an empty
range. Message ids in options become positions in `options.offsets` (OFFSET-16).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.model.positions.ids import MessageId

_TEXT: Final = re.compile(r"(\d{1,19}):(\d{1,19})(?::(-1|\d{1,10}))?")
_EARLIEST_TEXT: Final = "earliest"


class ReadPosition(NamedTuple):
    """The next message to read in one topic partition; compares as a tuple."""

    ledger_id: int
    entry_id: int
    batch_index: int = 0

    def __str__(self) -> str:
        if self == EARLIEST:
            return _EARLIEST_TEXT
        return f"{self.ledger_id}:{self.entry_id}:{self.batch_index}"

    @property
    def message_id(self) -> MessageId:
        """The position as a message id of the wire client (batch index -1: nothing of the entry is read yet)."""
        return MessageId(self.ledger_id, self.entry_id, -1, self.batch_index or -1)

    @classmethod
    def of(cls, message_id: MessageId) -> ReadPosition:
        """Makes a position from a message id of the wire client, where -1:-1 is the start of the topic."""
        if message_id.ledger_id < 0 or message_id.entry_id < 0:
            return EARLIEST
        return cls(message_id.ledger_id, message_id.entry_id, max(message_id.batch_index, 0))


EARLIEST: Final = ReadPosition(-1, -1, 0)
"""Before whatever the topic's first message is."""


def parse_position(text: str) -> ReadPosition:
    """Reads `ledger:entry`, `ledger:entry:batch` or `earliest`. Raises OffsetError."""
    if text == _EARLIEST_TEXT:
        return EARLIEST
    match = _TEXT.fullmatch(text)
    if match is None:
        raise OffsetError(f"{text!r} is not a position: expected ledger:entry or ledger:entry:batch")
    ledger, entry, batch = match.groups()
    if int(ledger) >= 2**63 or int(entry) >= 2**63:
        raise OffsetError(f"{text!r} is not a position: numbers must be below 2^63")
    if int(batch or 0) >= 2**31:
        raise OffsetError(f"{text!r} is not a position: a batch index must be below 2^31")
    return ReadPosition(int(ledger), int(entry), max(int(batch or 0), 0))


def entries_between(position: ReadPosition, end: ReadPosition) -> int:
    """Counts stored entries: exact while both positions are in one ledger, else at least that many."""
    if position >= end:
        return 0
    through = end.entry_id + (1 if end.batch_index else 0)
    return through - position.entry_id if position.ledger_id == end.ledger_id else max(through, 1)
