"""Variable-length integers at the edges of every length."""

from __future__ import annotations

import pytest

from spark_pulsar.model.errors import MalformedFrame
from spark_pulsar.wire.protocol.varint import decode, encode, encode_cached
from spark_pulsar.wire.pulsar_api_pb2 import CommandReachedEndOfTopic
from tests.cases import cases

EDGES = sorted({0, 2**64 - 1, *(2**bits + off for bits in range(7, 64, 7) for off in (-1, 0, 1))})


@cases("number", EDGES)
def test_as_protobuf_writes_it(number: int) -> None:
    expected = CommandReachedEndOfTopic(consumer_id=number).SerializeToString()[1:]
    assert encode(number) == encode_cached(number) == expected
    for behind in range(4):
        end = 1 + len(expected) + behind
        assert decode(b"x" + expected + b"xxx", 1, end) == (number, len(expected) + 1)
    with pytest.raises(MalformedFrame):
        decode(expected, 0, len(expected) - 1)


def test_negative_numbers_take_ten_bytes() -> None:
    assert encode(-1) == b"\xff" * 9 + b"\x01"
    assert len(encode(-(2**31))) == 10


def test_no_more_than_ten_bytes() -> None:
    with pytest.raises(MalformedFrame):
        decode(b"\x80" * 10 + b"\x01", 0, 11)
    assert decode(b"\xff" * 9 + b"\x7f", 0, 10) == (2**64 - 1, 10)
    assert decode(b"\x80\x00", 0, 2) == (0, 2)
