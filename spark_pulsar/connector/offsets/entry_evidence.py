"""Evidence of content: the fingerprint of an entry that a query has passed, kept with its position (OFFSET-17).
`micro_batches.topic_continuity` compares it (OFFSET-20).

A position is a place: what lies there may have been exchanged, by a data directory that was wiped, a copy that was
restored, or a service.url that leads to another broker. The entry that lies last before the position, or one that was
there when the offset was made, distinguishes the topic from all others, by publish time and checksum.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.positions import ReadPosition
from spark_pulsar.model.fingerprints import Fingerprint

_TEXT: Final = re.compile(r"(\d{1,19}):(\d{1,19}):(\d{1,20}):([0-9a-f]{8})")


def fingerprint_text(entry: Fingerprint) -> str:
    """Returns `ledger:entry:publishTimeMs:checksum`, the checksum in hexadecimal."""
    return f"{entry.ledger_id}:{entry.entry_id}:{entry.publish_time_ms}:{entry.checksum:08x}"


def parse_fingerprint(text: str) -> Fingerprint:
    """Reads what `fingerprint_text` wrote. Raises OffsetError."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise OffsetError(f"{text!r} is not a fingerprint: expected ledger:entry:publishTimeMs:checksum")
    ledger_id, entry_id, publish_time_ms, checksum = match.groups()
    return Fingerprint(int(ledger_id), int(entry_id), int(publish_time_ms), int(checksum, 16))


def last_before(position: ReadPosition) -> ReadPosition | None:
    """Returns the entry that lies last before a position in its ledger, which is the position's own where messages of
    it are read; None where the position begins a ledger, or a topic."""
    entry_id = position.entry_id if position.batch_index else position.entry_id - 1
    return ReadPosition(position.ledger_id, entry_id) if position.ledger_id >= 0 and entry_id >= 0 else None


def description(entry: Fingerprint) -> str:
    """Describes an entry for an error: when it was published, and its checksum."""
    try:
        published = datetime.fromtimestamp(entry.publish_time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        published = f"{entry.publish_time_ms} ms after 1970"
    return f"published at {published}, checksum {entry.checksum:08x}"
