"""Serialized message ids: the bytes that the official clients make of a message id, in texts and in offsets.

The column `__messageId` holds them, the texts of options may (`options.offsets`, OFFSET-16), StreamNative's connector
writes them into options and checkpoints, as a JSON array of signed bytes, and base64 makes a text of them (OFFSET-26).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.model.positions.ids import signed

if TYPE_CHECKING:
    from spark_pulsar.wire.pulsar_api_pb2 import MessageIdData

_LATEST: Final = 2**63 - 1
"""Ledger and entry of `MessageId.latest` of the official clients; those of `MessageId.earliest` are -1."""


def message_id_data(topic: str, serialized: bytes) -> MessageIdData:
    """Returns a message id of `topic` from its bytes. Raises OffsetError."""
    from google.protobuf.message import DecodeError  # not at the start: planners that read options need no protobuf

    from spark_pulsar.wire.pulsar_api_pb2 import MessageIdData

    try:
        data = MessageIdData.FromString(serialized)
    except DecodeError:
        data = MessageIdData()
    if not data.IsInitialized():
        raise OffsetError(f"{topic}: the bytes {serialized.hex()!r} are no message id")
    return data


def from_signed_bytes(topic: str, numbers: Sequence[object]) -> MessageIdData:
    """Returns a message id from a JSON array of its bytes, signed as Java's are, or not. Raises OffsetError."""
    if not all(isinstance(number, int) and -128 <= number <= 255 for number in numbers):
        raise OffsetError(f"{topic}: {list(numbers)!r} are not the bytes of a message id")
    return message_id_data(topic, bytes(number & 255 for number in numbers if isinstance(number, int)))


def from_base64(topic: str, text: str) -> MessageIdData | None:
    """Returns a message id from base64, None for a text that is something else."""
    try:
        return message_id_data(topic, base64.b64decode(text, validate=True)) if text else None
    except (binascii.Error, ValueError, OffsetError):
        return None


def word_of(data: MessageIdData) -> str | None:
    """Returns `earliest` or `latest` for the ids that the official clients have for these, None for a message's."""
    ledger_id, entry_id = signed(data.ledgerId), signed(data.entryId)
    if ledger_id == entry_id == -1:
        return "earliest"
    return "latest" if ledger_id == entry_id == _LATEST else None


def position_of(data: MessageIdData, *, after: bool = False) -> ReadPosition:
    """Returns the position of a message, or the one `after` it. Raises OffsetError for an id that is no message's."""
    ledger_id, entry_id = signed(data.ledgerId), signed(data.entryId)
    if not (0 <= ledger_id < _LATEST and 0 <= entry_id < _LATEST):
        raise OffsetError(f"the message id {ledger_id}:{entry_id} is no message's: use earliest or latest")
    if not after:
        return ReadPosition(ledger_id, entry_id, max(data.batch_index, 0))
    if data.batch_index >= 0 and (data.batch_size <= 0 or data.batch_index + 1 < data.batch_size):
        return ReadPosition(ledger_id, entry_id, data.batch_index + 1)
    return ReadPosition(ledger_id, entry_id + 1)


def position_read_up_to(topic: str, numbers: Sequence[object]) -> ReadPosition:
    """Returns the position of a partition in an offset of StreamNative's connector, which names the last message that
    was read, and `MessageId.earliest` where there was none (OFFSET-24). Raises OffsetError."""
    data = from_signed_bytes(topic, numbers)
    if (word := word_of(data)) == "earliest":
        return EARLIEST
    if word is not None:
        raise OffsetError(f"{topic}: an offset of a checkpoint stands at a message, not at latest")
    return position_of(data, after=True)
