"""The journal's bytes: segment header, groups, and records inside a group. `journal` gathers what is written as one
(DUR-2).

A segment begins with a header that names its number, a random salt, and the first group that was to be written to it.
Groups follow one another without gaps. A group's header repeats number and salt, so that what a recycled segment still
holds from its earlier life is never taken for new; its checksum covers the header and every byte of the payload, so
that a group is there as a whole or not at all.

    segment header  magic "SPJS", version u16, flags u16 (1: every write was synced), number u64, salt 8 bytes,
                    first group u64, size u64, crc32c u32; padded to 64 bytes
    group header    magic "SPJG", version u16, flags u16 (0), segment number u64, salt 8 bytes, group number u64,
                    payload length u32, number of records u32, crc32c u32
    record          type u8, version u8, body length u32, body
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from spark_pulsar.ledger.records import RecordDamaged
from spark_pulsar.storage.disk.disk import Disk

SEGMENT_MAGIC: Final = b"SPJS"
GROUP_MAGIC: Final = b"SPJG"
FORMAT_VERSION: Final = 1
SYNCED: Final = 1
SALT_BYTES: Final = 8

_SEGMENT: Final = Struct("<4sHHQ8sQQI")
_GROUP: Final = Struct("<4sHHQ8sQIII")
_CRC_AT: Final = _GROUP.size - 4
RECORD: Final = Struct("<BBI")
SEGMENT_HEADER_BYTES: Final = 64
GROUP_HEADER_BYTES: Final = _GROUP.size
RECORD_HEADER_BYTES: Final = RECORD.size
_SEARCH_BYTES: Final = 1 << 20


class SegmentHeader(NamedTuple):
    """The header of a segment. `first_group` is the number of the first group that it holds."""

    number: int
    salt: bytes
    first_group: int
    size: int
    synced: bool


class Group(NamedTuple):
    """A verified group: its number, its payload, and where both stand in the bytes it was read from."""

    number: int
    payload_at: int
    end: int
    payload: bytes


def segment_header_bytes(header: SegmentHeader) -> bytes:
    """The 64 bytes a segment begins with."""
    flags = SYNCED if header.synced else 0
    head = _SEGMENT.pack(
        SEGMENT_MAGIC, FORMAT_VERSION, flags, header.number, header.salt, header.first_group, header.size, 0
    )[:-4]
    crc = crc32c(head)
    return (head + crc.to_bytes(4, "little")).ljust(SEGMENT_HEADER_BYTES, b"\0")


def parse_segment_header(data: bytes) -> SegmentHeader | None:
    """The header at the start of `data`, None when it is not a whole one."""
    if len(data) < SEGMENT_HEADER_BYTES:
        return None
    magic, version, flags, number, salt, first_group, size, crc = _SEGMENT.unpack_from(data)
    if magic != SEGMENT_MAGIC or version != FORMAT_VERSION:
        return None
    if crc32c(data[: _SEGMENT.size - 4]) != crc or any(data[_SEGMENT.size : SEGMENT_HEADER_BYTES]):
        return None
    return SegmentHeader(number, salt, first_group, size, bool(flags & SYNCED))


def group_header_bytes(number: int, salt: bytes, group: int, records: int, payload: Iterable[bytes]) -> bytes:
    """The header of a group whose payload is these buffers one after the other."""
    buffers = list(payload)
    head = _GROUP.pack(GROUP_MAGIC, FORMAT_VERSION, 0, number, salt, group, sum(map(len, buffers)), records, 0)[
        :_CRC_AT
    ]
    crc = crc32c(head)
    for buffer in buffers:
        crc = crc32c(buffer, crc, gil_release_mode=0)
    return head + crc.to_bytes(4, "little")


def parse_group(data: memoryview, at: int, number: int, salt: bytes) -> Group | None:
    """The group of this segment that stands at `at`, None when none does or it fails its checksum. Its number is not
    judged."""
    payload_at = at + GROUP_HEADER_BYTES
    if payload_at > len(data):
        return None
    magic, version, flags, segment, group_salt, group, length, _, crc = _GROUP.unpack_from(data, at)
    if magic != GROUP_MAGIC or version != FORMAT_VERSION or flags or segment != number or group_salt != salt:
        return None
    end = payload_at + length
    if end > len(data):
        return None
    payload = bytes(data[payload_at:end])
    if crc32c(payload, crc32c(data[at : at + _CRC_AT]), gil_release_mode=0) != crc:
        return None
    return Group(group, payload_at, end, payload)


def read_group(disk: Disk, fd: int, at: int, number: int, salt: bytes) -> bytes | None:
    """The payload of the group at an offset of a segment file, None when none stands there or its checksum fails."""
    head = disk.read(fd, GROUP_HEADER_BYTES, at)
    if len(head) < GROUP_HEADER_BYTES:
        return None
    magic, version, flags, segment, group_salt, _, length, _, crc = _GROUP.unpack(head)
    if magic != GROUP_MAGIC or version != FORMAT_VERSION or flags or segment != number or group_salt != salt:
        return None
    payload = disk.read(fd, length, at + GROUP_HEADER_BYTES)
    if crc32c(payload, crc32c(head[:_CRC_AT]), gil_release_mode=0) != crc:
        return None
    return payload


def may_be_group(data: memoryview, at: int, number: int, salt: bytes, group: int) -> bool:
    """Returns whether the bytes at `at` are the remains of this group: any of its marks is in place."""
    head = bytes(data[at : at + GROUP_HEADER_BYTES]).ljust(GROUP_HEADER_BYTES, b"\0")
    _, _, _, segment, group_salt, group_number, _, _, _ = _GROUP.unpack(head)
    return bool(group_salt == salt or (segment == number and group_number == group))


def find_later_group(data: memoryview, after: int, number: int, salt: bytes | None) -> int | None:
    """Finds the offset of the first valid group of this segment after `after`, None when there is none. Without a salt
    (the segment's header is lost) every salt will do."""
    at = after
    while (at := _find_magic(data, at)) != -1:
        own_salt = bytes(data[at + 16 : at + 24]) if salt is None else salt
        if len(own_salt) == SALT_BYTES and parse_group(data, at, number, own_salt) is not None:
            return at
        at += 1
    return None


def whole_groups(data: memoryview, number: int, salt: bytes | None) -> Iterator[Group]:
    """All valid groups of a segment, whatever stands between them; `salt` as for `find_later_group`."""
    at = find_later_group(data, SEGMENT_HEADER_BYTES, number, salt)
    while at is not None:
        group = parse_group(data, at, number, bytes(data[at + 16 : at + 24]))
        assert group is not None, "find_later_group verified it"
        yield group
        at = find_later_group(data, group.end, number, salt)


def _find_magic(data: memoryview, start: int) -> int:
    # In pieces: searching bytes is many times faster than searching a mapped file.
    overlap = len(GROUP_MAGIC) - 1
    for at in range(start, len(data), _SEARCH_BYTES):
        offset = bytes(data[at : at + _SEARCH_BYTES + overlap]).find(GROUP_MAGIC)
        if offset != -1:
            return at + offset
    return -1


def records_of(payload: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Walks the records of a group's payload: (type, version, start and end of the body). RecordDamaged when they do
    not fill it."""
    unpack = RECORD.unpack_from
    at, size = 0, len(payload)
    while at < size:
        body_at = at + RECORD_HEADER_BYTES
        if body_at > size:
            raise RecordDamaged("the last record of the group is cut")
        record_type, version, length = unpack(payload, at)
        at = body_at + length
        if at > size:
            raise RecordDamaged("a record is longer than its group")
        yield record_type, version, body_at, at
