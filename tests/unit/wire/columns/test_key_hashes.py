"""Hashes of key columns against tables of the official clients, plain code, and mmh3."""

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.wire.columns.key_hashes import group_rows, hash_keys, one_group, partition_of, text_keys
from tests.unit.wire.key_hashes import BOOST, JAVA_STRING_HASH, MURMUR, boost_hash, java_string_hash

# Hash and partition of four by key, of each scheme.
TABLES = {
    "JavaStringHash": {key: (java, partition) for key, java, _, _, partition in JAVA_STRING_HASH},
    "Murmur3_32Hash": {key: (masked, partition) for key, _, masked, partition, _, _ in MURMUR},
    "BoostHash": {key: (masked, partition) for key, _, masked, _, partition, _ in BOOST},
}


@pytest.mark.parametrize("scheme", TABLES)
@pytest.mark.parametrize("arrow_type", [pa.string(), pa.large_string(), pa.string_view()])
def test_tables_of_the_reference(scheme: str, arrow_type: pa.DataType) -> None:
    # covers PT-4
    keys = text_keys(pa.array(list(TABLES[scheme]), arrow_type))
    assert hash_keys(keys, scheme).tolist() == [value for value, _ in TABLES[scheme].values()]
    assert partition_of(keys, 4, scheme).tolist() == [partition for _, partition in TABLES[scheme].values()]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.text(max_size=20)))
def test_any_text_hashes_as_java_and_mmh3_hash_it(texts: list[str]) -> None:
    keys = text_keys(pa.array(texts, pa.string()))
    assert hash_keys(keys, "JavaStringHash").tolist() == [java_string_hash(text) for text in texts]
    assert hash_keys(keys, "Murmur3_32Hash").tolist() == [
        mmh3.hash(text.encode(), 0, signed=False) & 0x7FFFFFFF for text in texts
    ]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_hash_as_boost_hashes_them(texts: list[bytes]) -> None:
    # covers PT-4
    keys = text_keys(pa.array(texts, pa.binary()).view(pa.string()))
    assert hash_keys(keys, "BoostHash").tolist() == [boost_hash(text) for text in texts]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.binary(max_size=20)))
def test_text_that_is_no_utf_8_hashes_to_something(texts: list[bytes]) -> None:
    column = pa.array(texts, pa.binary()).view(pa.string())
    assert len(hash_keys(text_keys(column), "JavaStringHash")) == len(texts)


def test_binary_keys_are_hashed_as_their_base64_text() -> None:
    keys = text_keys(pa.array([b"\xff\x00", b"", b"a", b"ab", b"abc", None], pa.binary()))
    assert keys.is_base64
    assert [keys.text.item(row) for row in range(6)] == [b"/wA=", b"", b"YQ==", b"YWI=", b"YWJj", None]
    as_text = text_keys(pa.array(["/wA=", "", "YQ==", "YWI=", "YWJj", None]))
    assert not as_text.is_base64
    for scheme in TABLES:
        assert partition_of(keys, 7, scheme).tolist() == partition_of(as_text, 7, scheme).tolist()
        assert partition_of(keys, 7, scheme)[5] == -1


def test_the_encoding_can_be_chosen() -> None:
    assert text_keys(pa.array(["é"]), "base64").text.item(0) == b"w6k="
    text = text_keys(pa.array([b"abc"]), "text")
    assert (text.text.item(0), text.is_base64) == (b"abc", False)
    with pytest.raises(ValueError, match="not UTF-8"):
        text_keys(pa.array([b"\xff"]), "text")
    with pytest.raises(TypeError, match="int64"):
        text_keys(pa.array([1]))


def test_bytes_behind_nulls_are_not_encoded() -> None:
    offsets, valid = pa.py_buffer(np.array([0, 2, 5, 6], np.int32)), pa.py_buffer(b"\x05")
    column = pa.Array.from_buffers(pa.binary(), 3, [valid, offsets, pa.py_buffer(b"abXYZc")])
    keys = text_keys(column)
    assert [keys.text.item(row) for row in range(3)] == [b"YWI=", None, b"Yw=="]


def test_columns_of_only_nulls_and_none() -> None:
    assert partition_of(text_keys(pa.nulls(3)), 5).tolist() == [-1, -1, -1]
    assert partition_of(text_keys(pa.array([], pa.string())), 5).tolist() == []


def test_slices_and_chunks_hash_as_their_rows() -> None:
    whole = pa.array(["x", None, "hello", "test", "y"])
    expected = [2, 2]
    assert partition_of(text_keys(whole.slice(2, 2)), 4).tolist() == expected
    chunked = pa.chunked_array([whole.slice(2, 1), whole.slice(3, 1)])
    assert partition_of(text_keys(chunked), 4).tolist() == expected
    assert partition_of(text_keys(whole.slice(1, 3)), 4).tolist() == [-1, *expected]
    assert partition_of(text_keys(whole.dictionary_encode()), 4).tolist()[2:4] == expected


def test_groups_keep_the_order_of_rows() -> None:
    groups = group_rows([2, 0, 2, 1, 0, 2], 4)
    assert [groups.rows[groups.offsets[g] : groups.offsets[g + 1]].tolist() for g in range(len(groups))] == [
        [1, 4],
        [3],
        [0, 2, 5],
        [],
    ]
    assert one_group(3).rows.tolist() == [0, 1, 2]
    for bad in ([0, 4], [-1], [1, 0, 2**40]):
        with pytest.raises(ValueError, match="does not exist"):
            group_rows(bad, 4)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 6)))
def test_grouping_is_a_stable_sort(partitions: list[int]) -> None:
    groups = group_rows(partitions, 7)
    assert groups.rows.tolist() == np.argsort(partitions, kind="stable").tolist()
    assert np.diff(groups.offsets).tolist() == np.bincount(np.array(partitions, int), minlength=7).tolist()


def test_bad_arguments() -> None:
    keys = text_keys(pa.array(["a"]))
    with pytest.raises(ValueError, match="Fnv"):
        hash_keys(keys, "Fnv")
    with pytest.raises(ValueError, match="one partition"):
        partition_of(keys, 0)
