"""Message ids as the WebSocket API writes them: those bytes of Apache Pulsar's Java client in base64 (WS-4)."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from google.protobuf.message import DecodeError

from spark_pulsar.wire.pulsar_api_pb2 import MessageIdData


class BadMessageId(ValueError):
    """A text that is no message id."""


class WebSocketMessageId(NamedTuple):
    """An id of a message: its entry, its partition (-1: none), its place in a batch (-1: no batch) and the batch's
    size."""

    ledger_id: int
    entry_id: int
    partition: int = -1
    batch_index: int = -1
    batch_size: int = 0

    def text(self) -> str:
        """Returns the id in base64."""
        data = MessageIdData(ledgerId=self.ledger_id, entryId=self.entry_id, batch_size=self.batch_size)
        if self.partition >= 0:
            data.partition = self.partition
        if self.batch_index >= 0:
            data.batch_index = self.batch_index
        return base64.b64encode(data.SerializeToString()).decode()

    @classmethod
    def parse(cls, text: str) -> WebSocketMessageId:
        """Reads an id. Raises BadMessageId."""
        try:
            data = MessageIdData.FromString(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
        except (binascii.Error, ValueError, DecodeError):
            raise BadMessageId(f"{text[:100]!r} is no message id") from None
        if not data.IsInitialized():
            raise BadMessageId(f"{text[:100]!r} is no message id")
        return cls(data.ledgerId, data.entryId, data.partition, data.batch_index, data.batch_size)
