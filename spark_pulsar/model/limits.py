"""Every bound of the system in one place. Sizes are bytes, times milliseconds, as the last word of each name says."""

from __future__ import annotations

from typing import Final

# Frames (PR-10).
MAX_MESSAGE_SIZE_BYTES: Final = 5_242_880
"""Default of `maxMessageSize`: metadata + payload of one entry, announced in CONNECTED."""

FRAME_PADDING_BYTES: Final = 10_240
"""Bytes that a frame may have beyond the message limit: room for the command, headers and chunk fields."""

MAX_FRAME_SIZE_BYTES: Final = MAX_MESSAGE_SIZE_BYTES + FRAME_PADDING_BYTES
"""A whole frame *including* its four totalSize bytes, as the real broker counts it."""

MIN_TOTAL_SIZE_BYTES: Final = 6
"""The least totalSize of a frame that can hold a command: its size field and a two-byte type."""

MAX_FIRST_FRAME_SIZE_BYTES: Final = 16 * 1024
"""A whole first frame: a CONNECT, with its credentials. A stranger may leave no more unfinished."""

MAX_PROPERTIES: Final = 16_384
"""Most properties of one command. Reading each takes microseconds, and a frame has room for a million."""

# Protocol versions (A15).
PROTOCOL_VERSION: Final = 21
"""Highest protocol version we speak; CONNECTED answers min(this, the client's)."""

# Decoding of entries.
MAX_DECOMPRESSED_SIZE_BYTES: Final = 512 * 1024 * 1024
"""Largest declared size of an entry that is inflated: the size is the sender's word, not a fact."""

MAX_BROKER_DECOMPRESSED_SIZE_BYTES: Final = 16 * 1024 * 1024
"""Largest declared size of an entry that the broker itself inflates, to show a message or to compact a batch: sixteen
kilobytes may say that they are all that clients take. Batches of official clients have 128 KiB."""

MAX_BATCH_MESSAGES: Final = 16 * 1024 * 1024
"""Messages of one batch; each needs at least six bytes, so a decompressed entry can hold no more that make sense."""

# Chunked messages (CHK-1 ... CHK-8), reading side.
MAX_CHUNKS_PER_MESSAGE: Final = 65_536
"""Chunks of one message; a sender that declares more is refused at its first chunk."""

MAX_CHUNKED_MESSAGE_SIZE_BYTES: Final = MAX_DECOMPRESSED_SIZE_BYTES
"""Total size of one chunked message after compression."""

MAX_PENDING_CHUNKED_MESSAGES: Final = 10
"""Unfinished chunked messages kept at once; the oldest is dropped first (CHK-5, the C++ client's default)."""

MAX_PENDING_CHUNKED_BYTES: Final = 1024 * 1024 * 1024
"""Bytes of all unfinished chunked messages together."""

# Names.
MAX_PARTITION_INDEX: Final = 2**31 - 1
"""Partition indexes are int32 on the wire; a larger number after `-partition-` is ordinary text."""

# Client behaviour (W2).
MAX_LOOKUP_REDIRECTS: Final = 20
MAX_PARTITIONS: Final = 65_536
"""Partitions of one topic that a client believes in: each costs it a name, a lookup and a reader or producer."""

KEEP_ALIVE_INTERVAL_MS: Final = 30_000
HANDSHAKE_TIMEOUT_MS: Final = 30_000

INT: Final = (1 << 31) - 1
LONG: Final = (1 << 63) - 1
"""Largest numbers in bodies of the admin API: Apache Pulsar and its clients read no larger ones."""
