"""Groups of the journal, and the index of the runs of entries in them."""

import pytest

from spark_pulsar.ledger.records import RecordDamaged
from spark_pulsar.storage.journal.groups import (
    GROUP_HEADER_BYTES,
    RECORD,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    find_later_group,
    group_header_bytes,
    may_be_group,
    parse_group,
    parse_segment_header,
    records_of,
    segment_header_bytes,
)
from spark_pulsar.storage.journal.run_index import LedgerRuns, RunIndex, RunPlace
from tests import without_numpy

SALT = b"saltsalt"


def group(number: int, *payload: bytes, segment: int = 3, salt: bytes = SALT) -> bytes:
    return group_header_bytes(segment, salt, number, 1, payload) + b"".join(payload)


def test_a_segment_header_comes_back() -> None:
    header = SegmentHeader(7, SALT, 99, 1 << 26, True)
    data = segment_header_bytes(header)
    assert len(data) == SEGMENT_HEADER_BYTES
    assert parse_segment_header(data) == header
    assert parse_segment_header(data[:-1]) is None
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert parse_segment_header(bytes(damaged)) is None


def test_a_group_is_whole_or_not_there() -> None:
    data = group(5, b"first", b"second")
    found = parse_group(memoryview(data), 0, 3, SALT)
    assert found is not None
    assert (found.number, found.payload, found.payload_at, found.end) == (
        5,
        b"firstsecond",
        GROUP_HEADER_BYTES,
        len(data),
    )
    for cut in range(len(data)):
        assert parse_group(memoryview(data[:cut]), 0, 3, SALT) is None
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert parse_group(memoryview(damaged), 0, 3, SALT) is None


def test_groups_of_another_segment_or_life_do_not_count() -> None:
    data = memoryview(group(5, b"payload"))
    assert parse_group(data, 0, 4, SALT) is None
    assert parse_group(data, 0, 3, b"othersal") is None


def test_a_later_group_is_found_wherever_it_stands() -> None:
    for at in (0, 1, 17, (1 << 20) - 2, (1 << 20) + 5):
        data = memoryview(b"?" * at + group(5, b"payload") + b"?" * 10)
        assert find_later_group(data, 0, 3, SALT) == at
        assert find_later_group(data, 0, 3, None) == at
        assert find_later_group(data, at + 1, 3, SALT) is None
        assert find_later_group(data, 0, 4, None) is None


def test_what_is_left_of_a_group_is_told_from_old_bytes() -> None:
    data = bytearray(group(5, b"payload"))
    assert may_be_group(memoryview(data), 0, 3, SALT, 5)
    data[0] ^= 1
    assert may_be_group(memoryview(data), 0, 3, SALT, 5)
    assert not may_be_group(memoryview(group(5, b"x", segment=2, salt=b"othersal")), 0, 3, SALT, 5)
    assert not may_be_group(memoryview(bytes(100)), 0, 3, SALT, 5)
    assert not may_be_group(memoryview(b""), 0, 3, SALT, 5)


def test_records_must_fill_their_group() -> None:
    payload = RECORD.pack(1, 1, 3) + b"abc" + RECORD.pack(2, 1, 0)
    assert [(kind, payload[at:end]) for kind, _, at, end in records_of(payload)] == [(1, b"abc"), (2, b"")]
    for cut in (1, 7, len(payload) - 1):
        with pytest.raises(RecordDamaged):
            list(records_of(payload[:cut]))


both_ways = without_numpy.both_ways


def runs() -> LedgerRuns:
    index = RunIndex()
    index.add(((9,), (10,), 5), 1, 100, 50)
    index.add(([9, 8, 9], [15, 0, 16], 3), 1, 200, 70)
    index.add(((9,), (17,), 3), 3, 64, 1 << 28)
    assert index.ledgers[8].place(0) == RunPlace(0, 1, 1, 200, 70, True)
    return index.ledgers[9]


def test_places_are_found_by_entry() -> None:
    found = runs()
    assert [found.index_of(entry_id) for entry_id in (0, 10, 14, 15, 16, 17, 19, 20)] == [0, 0, 0, 1, 2, 3, 3, 4]
    assert found.place(0) == RunPlace(10, 15, 1, 100, 50, False)
    assert found.place(1) == RunPlace(15, 16, 1, 200, 70, True)
    assert found.place(3) == RunPlace(17, 20, 3, 64, 1 << 28, False)


def test_the_front_is_settled_by_segment() -> None:
    found = runs()
    assert [found.count_before_segment(segment) for segment in (1, 2, 3, 4)] == [0, 3, 3, 4]
    assert [found.end_before(count) for count in (1, 3, 4)] == [15, 17, 20]
    index = RunIndex()
    index.ledgers[9] = found
    index.drop_before_segment(9, 3)
    assert (found.place(0).first, found.end) == (17, 20)
    index.drop_before_segment(9, 4)
    index.drop_before_segment(9, 4)
    assert index.ledgers == {}
