"""Positions of entries and ids of messages, with their total order and text form (ML-4).

On the wire both parts are uint64 and -1 is all ones; in here they are plain ints with -1 as itself. `signed` and
`unsigned` convert.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from spark_pulsar.model.errors import PulsarError

_U64: Final = 1 << 64
_MAX_I64: Final = (1 << 63) - 1


class InvalidMessageId(PulsarError, ValueError):
    """A text that is no `ledger:entry[:partition[:batch]]`."""

    http_status = 412


def signed(wire: int) -> int:
    """Returns a uint64 from the wire as the signed number it stands for (2**64 - 1 is -1)."""
    return wire - _U64 if wire > _MAX_I64 else wire


def unsigned(number: int) -> int:
    """Returns a signed number as the uint64 that the wire carries (-1 is 2**64 - 1)."""
    return number + _U64 if number < 0 else number


class Position(NamedTuple):
    """An entry of one topic partition. Compares by (ledger, entry), as tuples do."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"

    @property
    def next_in_ledger(self) -> Position:
        """The position one entry later in the same ledger, which need not exist."""
        return Position(self.ledger_id, self.entry_id + 1)


EARLIEST: Final = Position(-1, -1)
"""Before the first entry of any topic."""

LATEST: Final = Position(_MAX_I64, _MAX_I64)
"""After the last entry of any topic."""


class MessageId(NamedTuple):
    """A message: an entry, or one index inside a batch. `batch_index` -1 means the whole entry, `partition` -1 none.

    Order is by (ledger, entry, batch_index); the partition does not take part, because ids of different partitions
    have no order. So two ids can be unequal while neither is less.
    """

    ledger_id: int
    entry_id: int
    partition: int = -1
    batch_index: int = -1

    @property
    def position(self) -> Position:
        """The entry that holds the message."""
        return Position(self.ledger_id, self.entry_id)

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}:{self.partition}:{self.batch_index}"

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return _order(self) < _order(other)

    def __le__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return _order(self) <= _order(other)

    def __gt__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return _order(self) > _order(other)

    def __ge__(self, other: object) -> bool:
        if not isinstance(other, MessageId):
            return NotImplemented
        return _order(self) >= _order(other)

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Reads `ledger:entry[:partition[:batch]]`; InvalidMessageId when it is something else."""
        parts = text.split(":")
        if not 2 <= len(parts) <= 4:
            raise InvalidMessageId(f"not a message id: {text!r} (want ledger:entry:partition:batch)")
        numbers = [_number(part, text) for part in parts]
        return cls(*numbers)


EARLIEST_ID: Final = MessageId(*EARLIEST)
"""`EARLIEST` as a message id."""

LATEST_ID: Final = MessageId(*LATEST)
"""`LATEST` as a message id."""


def _order(message_id: MessageId) -> tuple[int, int, int]:
    return message_id.ledger_id, message_id.entry_id, message_id.batch_index


def _number(part: str, text: str) -> int:
    digits = part[1:] if part.startswith("-") else part
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        raise InvalidMessageId(f"not a message id: {text!r} ({part!r} is no number)")
    number = int(part)
    if not -1 <= number <= _MAX_I64:
        raise InvalidMessageId(f"not a message id: {text!r} ({part!r} is out of range)")
    return number
