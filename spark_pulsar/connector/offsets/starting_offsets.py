"""Message ids as `startingOffsets`: to read on from, or again from, messages that were seen before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import DecodeError

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.positions import ReadPosition
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import InvalidMessageId, MessageId, signed, unsigned
from spark_pulsar.wire.pulsar_api_pb2 import MessageIdData

_LATEST: Final = 2**63 - 1
"""Ledger and entry of `MessageId.latest` of the official clients; those of `MessageId.earliest` are -1."""


def starting_offsets(message_ids: Mapping[str, Any], *, after: bool = False) -> str:
    """Returns the text for the option `startingOffsets` that starts each topic partition at a message, or `after` it
    (OFFSET-13).

    A message id is what the column `__messageId` holds (bytes), one of the official Python client, or its text,
    `ledger:entry:partition:batch`. The first message of a topic or its end are named by `earliest` and `latest`, which
    are passed on. Raises OffsetError for a text that is no message id.
    """
    found = {TopicName.parse(topic).full: _text(topic, each, after) for topic, each in message_ids.items()}
    return json.dumps(found)


def _text(topic: str, message_id: Any, after: bool) -> str:
    if isinstance(message_id, str) and message_id in ("earliest", "latest"):
        return message_id
    if isinstance(message_id, str) and message_id.count(":") == 2:
        raise OffsetError(f"{topic}: {message_id!r} is no whole message id: write ledger:entry:partition:batch")
    data = _data_of_text(topic, message_id) if isinstance(message_id, str) else _data_of(topic, message_id)
    return str(_position(data, after).message_id._replace(partition=TopicName.parse(topic).partition))


def _data_of_text(topic: str, text: str) -> MessageIdData:
    try:
        wanted = MessageId.parse(text)
    except InvalidMessageId as error:
        raise OffsetError(f"{topic}: {error}") from error
    return MessageIdData(
        ledgerId=unsigned(wanted.ledger_id), entryId=unsigned(wanted.entry_id), batch_index=wanted.batch_index
    )


def _data_of(topic: str, message_id: Any) -> MessageIdData:
    serialized = message_id.serialize() if hasattr(message_id, "serialize") else message_id
    if not isinstance(serialized, bytes | bytearray | memoryview):
        raise OffsetError(
            f"{topic}: {message_id!r} is no message id: give the bytes of __messageId, a pulsar.MessageId, a text "
            "ledger:entry:partition:batch, earliest or latest"
        )
    try:
        data = MessageIdData.FromString(bytes(serialized))
    except DecodeError:
        data = MessageIdData()
    if not data.IsInitialized():
        raise OffsetError(f"{topic}: the bytes {bytes(serialized).hex()!r} are no message id")
    return data


def _position(data: MessageIdData, after: bool) -> ReadPosition:
    ledger_id, entry_id = signed(data.ledgerId), signed(data.entryId)
    if not (0 <= ledger_id < _LATEST and 0 <= entry_id < _LATEST):
        raise OffsetError(f"the message id {ledger_id}:{entry_id} is no message's: use earliest or latest")
    if not after:
        return ReadPosition(ledger_id, entry_id, max(data.batch_index, 0))
    if data.batch_index >= 0 and (data.batch_size <= 0 or data.batch_index + 1 < data.batch_size):
        return ReadPosition(ledger_id, entry_id, data.batch_index + 1)
    return ReadPosition(ledger_id, entry_id + 1)
