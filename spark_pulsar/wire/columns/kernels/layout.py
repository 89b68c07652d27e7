"""The tables kernels exchange: which row of a table holds which field, and what their error codes mean.

A table is ``int64[fields, items]``. Positions are byte positions in one buffer; a pair ``*_START``, ``*_LENGTH`` says
where bytes lie, with length -1 for "no such bytes" (null).
"""

import numpy as np
import numpy.typing as npt

MIN_INT64 = -(2**63)
ABSENT = MIN_INT64
"""Stands for a number of at most 32 bits that is not there."""

# Entry table: one item per entry.
METADATA_START = 0
METADATA_LENGTH = 1
PAYLOAD_START = 2
PAYLOAD_LENGTH = 3
KIND = 4
COUNT = 5  # messages in the entry: 0 for a marker and for a chunk that is not the last
PRODUCER_START = 6
PRODUCER_LENGTH = 7
SEQUENCE_ID = 8
PUBLISH_TIME = 9
PROPERTY_COUNT = 10
KEY_START = 11
KEY_LENGTH = 12
COMPRESSION = 13
UNCOMPRESSED_SIZE = 14
MESSAGES_IN_BATCH = 15  # field 11
EVENT_TIME = 16
ENCRYPTION_KEYS = 17  # how many; negative: the payload in the table is not, or no longer, to be decrypted
KEY_IS_BASE64 = 18
MARKER = 19  # marker_type
NULL_VALUE = 20
UUID_START = 21
UUID_LENGTH = 22
CHUNK_COUNT = 23
CHUNK_TOTAL_SIZE = 24
CHUNK_ID = 25
NULL_KEY = 26
PRESENT = 27  # bit f: field f of this table was in the metadata
SCHEMA_VERSION_START = 28
SCHEMA_VERSION_LENGTH = 29
ENTRY_FIELDS = 30

# Row table: one item per message.
ROW_ENTRY = 0  # index of its entry
ROW_BATCH_INDEX = 1  # -1 outside a batch
ROW_VALUE_START = 2
ROW_VALUE_LENGTH = 3
ROW_KEY_START = 4
ROW_KEY_LENGTH = 5
ROW_KEY_IS_BASE64 = 6
ROW_SEQUENCE_ID = 7
ROW_EVENT_TIME = 8
ROW_PROPERTY_COUNT = 9
ROW_METADATA_START = 10  # where its properties are found again
ROW_METADATA_END = 11
ROW_FIELDS = 12

# Batch table: one item per encoded batch.
BATCH_GROUP = 0
BATCH_FIRST = 1  # first place in the list of rows
BATCH_STOP = 2
BATCH_START = 3  # first byte
BATCH_END = 4
BATCH_FIELDS = 5

# Kinds of entries.
KIND_SINGLE = 0
KIND_BATCH = 1
KIND_CHUNK = 2
KIND_MARKER = 3

SMALLEST_ITEM_BYTES = 6
"""A batch item is at least its 4-byte metadata size and the required payload_size field of two bytes."""


# Reasons why a kernel refused its input: negative, where it returns a count or a place otherwise.
TRUNCATED = -1
BAD_VARINT = -2
BAD_TAG = -3
BAD_LENGTH = -4
MISSING_FIELD = -5
NEGATIVE_SIZE = -6
BAD_COUNT = -7
BAD_BASE64 = -8
UNASSEMBLED_CHUNK = -9
ENCRYPTED = -10
TOO_LARGE = -11
BAD_CHUNK = -12

REASONS = {
    TRUNCATED: "it ends early",
    BAD_VARINT: "a number is cut off or longer than 64 bits",
    BAD_TAG: "a field tag is not valid",
    BAD_LENGTH: "a length reaches beyond the end",
    MISSING_FIELD: "a required field is missing",
    NEGATIVE_SIZE: "a size is negative",
    BAD_COUNT: "its number of messages is negative or more than its payload can hold",
    BAD_BASE64: "a key is marked base64 and is not",
    UNASSEMBLED_CHUNK: "it is one chunk of a larger message, which must be put together first",
    ENCRYPTED: "it is encrypted",
    TOO_LARGE: "its columns would pass 2 GiB",
    BAD_CHUNK: "its chunk number is outside its number of chunks",
}
"""The reasons in words."""


def _slots() -> npt.NDArray[np.int64]:
    """Returns the row of the entry table for every one-byte or two-byte tag of MessageMetadata that is read, else
    -1."""
    varint, delimited = 0, 2
    fields = (
        (1, delimited, PRODUCER_START),
        (2, varint, SEQUENCE_ID),
        (3, varint, PUBLISH_TIME),
        (6, delimited, KEY_START),
        (8, varint, COMPRESSION),
        (9, varint, UNCOMPRESSED_SIZE),
        (11, varint, MESSAGES_IN_BATCH),
        (12, varint, EVENT_TIME),
        (16, delimited, SCHEMA_VERSION_START),
        (17, varint, KEY_IS_BASE64),
        (20, varint, MARKER),
        (25, varint, NULL_VALUE),
        (26, delimited, UUID_START),
        (27, varint, CHUNK_COUNT),
        (28, varint, CHUNK_TOTAL_SIZE),
        (29, varint, CHUNK_ID),
        (30, varint, NULL_KEY),
    )
    slots = np.full(256, -1, np.int64)
    for number, wire_type, row in fields:
        slots[number << 3 | wire_type] = row
    return slots


METADATA_SLOTS = _slots()
