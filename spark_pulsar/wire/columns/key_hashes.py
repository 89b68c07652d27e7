"""Keys as text, their hashes, and the partition each row goes to, for whole columns (PT-4, PT-6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from spark_pulsar.wire.columns.entries import IntArray
from spark_pulsar.wire.columns.flat import FlatBytes, flat_bytes, is_text, one_array
from spark_pulsar.wire.columns.kernels.encode_kernels import encode_base64, group_by_partition
from spark_pulsar.wire.columns.kernels.hash_kernels import boost_hashes, java_string_hashes, murmur3_32_hashes

HashScheme = Literal["JavaStringHash", "Murmur3_32Hash", "BoostHash"]
KeyEncoding = Literal["by_type", "text", "base64"]

NO_PARTITION: Final = -1
"""Partition of a row without key: the caller chooses one."""

_KERNELS: Final = {
    "JavaStringHash": java_string_hashes,
    "Murmur3_32Hash": murmur3_32_hashes,
    "BoostHash": boost_hashes,
}


@dataclass(frozen=True, slots=True, eq=False)
class TextKeys:
    """A column of keys as they stand in ``partition_key``: text, or base64 text of bytes."""

    text: FlatBytes
    is_base64: bool
    """True when ``partition_key_b64_encoded`` is to be set."""

    def __len__(self) -> int:
        return len(self.text.offsets) - 1


@dataclass(frozen=True, slots=True, eq=False)
class RowGroups:
    """Row numbers by group: group g is ``rows[offsets[g]:offsets[g + 1]]``, in the order of the column."""

    rows: IntArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1


def text_keys(column: Any, encoding: KeyEncoding = "by_type") -> TextKeys:
    """Keys ready to be hashed and sent.

    :param column: strings or bytes; null = no key
    :param encoding: "text" sends the characters, "base64" the bytes as base64 text with its flag; "by_type" is "text"
        for string columns and "base64" for binary ones, as the official clients do for ``key`` and ``keyBytes``
    :raises TypeError: the column is neither of strings nor of bytes
    :raises ValueError: "text" for bytes that are not UTF-8
    """
    array = one_array(column)
    if encoding == "by_type":
        encoding = "text" if is_text(array.type) or pa.types.is_null(array.type) else "base64"
    flat = flat_bytes(array)
    if encoding == "text":
        if not is_text(array.type) and not pa.types.is_null(array.type):
            try:
                array.cast(pa.large_binary()).cast(pa.large_string())
            except pa.ArrowInvalid as invalid:
                raise ValueError("a binary key is not UTF-8; send it as base64") from invalid
        return TextKeys(flat, is_base64=False)
    lengths = np.diff(flat.offsets)
    if len(flat.valid):
        lengths[flat.valid == 0] = 0
        flat = _without_bytes_of_nulls(flat, lengths)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum((lengths + 2) // 3 * 4)))
    text = np.empty(int(offsets[-1]), np.uint8)
    encode_base64(flat.data, flat.offsets, offsets, text)
    return TextKeys(FlatBytes(text, offsets, flat.valid), is_base64=True)


def _without_bytes_of_nulls(flat: FlatBytes, lengths: IntArray) -> FlatBytes:
    """Returns the column with nothing behind its nulls (Arrow allows bytes there; ``lengths`` is 0 for them)."""
    if (np.diff(flat.offsets) == lengths).all():
        return flat
    parts = [flat.item(row) or b"" for row in range(len(lengths))]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return FlatBytes(np.frombuffer(b"".join(parts), np.uint8), offsets, flat.valid)


def hash_keys(keys: TextKeys, scheme: HashScheme) -> IntArray:
    """Returns the 31-bit hash of each key's text, as the official clients compute it (SINK-2); that of a null key has
    no meaning.

    JavaStringHash goes over UTF-16 units (what Java does; C++ and Go differ for other than ASCII keys). BoostHash is
    that of clients built with Boost 1.81 or later (the official Python client from 3.6 on) (SINK-10).

    :raises ValueError: an unknown scheme
    """
    if scheme not in _KERNELS:
        raise ValueError(f"unknown hashing scheme {scheme!r}; there are {', '.join(_KERNELS)}")
    hashes = np.empty(len(keys), np.int64)
    _KERNELS[scheme](keys.text.data, keys.text.offsets, hashes)
    return hashes


def partition_of(keys: TextKeys, partition_count: int, scheme: HashScheme = "JavaStringHash") -> IntArray:
    """Returns the partition of each row: hash mod count, or NO_PARTITION where there is no key.

    :raises ValueError: an unknown scheme, or a count below 1
    """
    if partition_count < 1:
        raise ValueError("a topic has one partition at least")
    partitions = hash_keys(keys, scheme) % partition_count
    if len(keys.text.valid):
        partitions[keys.text.valid == 0] = NO_PARTITION
    return partitions


def group_rows(partitions: Sequence[int] | IntArray, group_count: int) -> RowGroups:
    """Row numbers by partition, each group in the order of the rows.

    :raises ValueError: a partition is not between 0 and ``group_count`` (exclusive)
    """
    wanted = np.ascontiguousarray(partitions, np.int64)
    offsets, rows = np.zeros(group_count + 2, np.int64), np.empty(len(wanted), np.int64)
    bad = group_by_partition(wanted, group_count, offsets, rows)
    if bad >= 0:
        raise ValueError(f"row {bad}: partition {wanted[bad]} of {group_count} does not exist")
    return RowGroups(rows, offsets[: group_count + 1])


def one_group(row_count: int) -> RowGroups:
    """All rows in one group."""
    return RowGroups(np.arange(row_count), np.array([0, row_count], np.int64))
