"""Positions of entries, ids of messages with their total order and text form (ML-4), and ids of transactions.

The text of a message id is `ledger:entry:partition:batch`, everywhere. Other common spellings are read, too: with parts
left out at the end, as the Java client prints them; `(ledger,entry,partition,batch)` of the Python and C++ clients;
JSON of the admin API.

On the wire both parts are uint64 and -1 is all ones; in here they are plain ints with -1 as itself. `signed` and
`unsigned` convert.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from spark_pulsar.model.errors import PulsarError

_U64: Final = 1 << 64
_MAX_I64: Final = (1 << 63) - 1


_LONGEST_TEXT: Final = 500
_JSON_KEYS: Final = ("ledgerId", "entryId", "partitionIndex", "batchIndex")


class InvalidMessageId(PulsarError, ValueError):
    """A text that is no message id."""

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
        """Reads `ledger:entry[:partition[:batch]]`, `(ledger,entry,partition,batch)`, or the JSON object of the admin
        API. Raises InvalidMessageId."""
        if text.startswith("{") and len(text) <= _LONGEST_TEXT:
            try:
                loaded = json.loads(text)
            except ValueError:
                raise InvalidMessageId(f"not a message id: {text!r} (no JSON)") from None
            return cls.of_json(loaded)
        in_brackets = text.startswith("(") and text.endswith(")")
        parts = [part.strip(" ") for part in text[1:-1].split(",")] if in_brackets else text.split(":")
        if not 2 <= len(parts) <= 4:
            raise InvalidMessageId(f"not a message id: {_shown(text)} (want ledger:entry:partition:batch)")
        return cls(*(_number(part, text) for part in parts))

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> MessageId:
        """Reads a message id of the admin API: `ledgerId`, `entryId` and, if they are there, `partitionIndex` and
        `batchIndex`. Raises InvalidMessageId."""
        numbers = [value.get(key, -1) for key in _JSON_KEYS]
        if not {"ledgerId", "entryId"} <= value.keys() or any(type(number) is not int for number in numbers):
            raise InvalidMessageId(f"not a message id: {_shown(json.dumps(value))} (want ledgerId and entryId)")
        return cls(*(_number(str(number), str(number)) for number in numbers))

    @classmethod
    def of_client(cls, message_id: Any) -> MessageId:
        """Takes over a `pulsar.MessageId` of the official Python client."""
        return cls(message_id.ledger_id(), message_id.entry_id(), message_id.partition(), message_id.batch_index())


class TransactionId(NamedTuple):
    """A transaction: the coordinator that opened it, and the number that it gave. Both are uint64 on the wire."""

    most: int
    least: int

    def __str__(self) -> str:
        return f"({self.most},{self.least})"


EARLIEST_ID: Final = MessageId(*EARLIEST)
"""`EARLIEST` as a message id."""

LATEST_ID: Final = MessageId(*LATEST)
"""`LATEST` as a message id."""


def _order(message_id: MessageId) -> tuple[int, int, int]:
    return message_id.ledger_id, message_id.entry_id, message_id.batch_index


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…")


def _number(part: str, text: str) -> int:
    digits = part[1:] if part.startswith("-") else part
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        raise InvalidMessageId(f"not a message id: {_shown(text)} ({_shown(part)} is no number)")
    number = int(part)
    if not -1 <= number <= _MAX_I64:
        raise InvalidMessageId(f"not a message id: {_shown(text)} ({_shown(part)} is out of range)")
    return number
