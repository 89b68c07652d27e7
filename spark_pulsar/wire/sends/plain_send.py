"""The layout of a plain SEND, which nearly every SEND of an official client has.

    totalSize u32, commandSize u32
    08 06           BaseCommand: the type SEND
    32 size         its content; the size fits into one byte
      08 varint     producer id
      10 varint     sequence id
      18 varint     number of messages, if given: at most MOST_MESSAGES; 0 means 1
      20 varint     number of its transaction, and
      28 varint     that of the transaction's coordinator, if it is in one
      30 varint     highest sequence id, if given
    0e 01           the entry: magic of the checksum
    u32             CRC32C of all that follows
    u32             size of the metadata, which lie inside the frame
    metadata, payload

`run_splitter` reads these one after the other, `columnar_reading` many at once where there is no highest sequence id
and no transaction. Both leave any other SEND to protobuf.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

START: Final = b"\x08\x06\x32"
"""Type SEND and the tag of the content, behind both sizes of the frame."""
START_AT: Final = 8
SIZE_AT: Final = START_AT + len(START)
CONTENT_AT: Final = SIZE_AT + 1

PRODUCER_ID: Final = 0x08
SEQUENCE_ID: Final = 0x10
MESSAGES: Final = 0x18
TRANSACTION_LEAST: Final = 0x20
TRANSACTION_MOST: Final = 0x28
HIGHEST_SEQUENCE_ID: Final = 0x30
"""Tags of the fields, in their order."""

MOST_MESSAGES: Final = 0x7FFFFFFF

MAGIC_BYTES: Final = b"\x0e\x01"
MAGIC: Final = int.from_bytes(MAGIC_BYTES, "big")
ENTRY_HEAD: Final = Struct(">HII")
"""Magic, checksum and size of the metadata."""
ENTRY_HEAD_BYTES: Final = ENTRY_HEAD.size
CHECKED_AT: Final = 6
"""Offset of the part of an entry that its checksum covers: the size of the metadata, metadata, payload."""
