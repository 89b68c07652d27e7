"""Batch bitmaps between an int and 64-bit words (CUR-3)."""

from __future__ import annotations

import time

import pytest

from spark_pulsar.wire.protocol import ack_sets


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0, []),
        (0b100, [4]),
        (1 << 63, [-(2**63)]),
        ((1 << 64) - 1, [-1]),
        (1 << 64, [0, 1]),
        ((1 << 200) - 1, [-1, -1, -1, 255]),
    ],
)
def test_words(mask: int, words: list[int]) -> None:
    assert ack_sets.words(mask) == words
    assert ack_sets.mask(words) == mask


def test_trailing_zero_words_do_not_matter() -> None:
    assert ack_sets.mask([5, 0, 0]) == ack_sets.mask([5]) == 5
    assert ack_sets.mask([0]) == 0


def test_indexes() -> None:
    assert list(ack_sets.indexes(ack_sets.full(3))) == [0, 1, 2]
    assert list(ack_sets.indexes(ack_sets.from_index(2, 5))) == [2, 3, 4]
    assert list(ack_sets.indexes(1 << 130)) == [130]
    assert ack_sets.from_index(5, 5) == 0


def test_as_many_words_as_a_frame_holds_take_their_length_and_no_more() -> None:
    # Hostile input: word by word this is a number of megabytes built half a million times, which is minutes.
    words = [-1, 0, 5] * 200_000
    began = time.process_time()
    mask = ack_sets.mask(words)
    assert ack_sets.words(mask) == words
    assert time.process_time() - began < 30
