"""Properties of messages that resemble those before: what the kernels take from the row before is what is there."""

import struct
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.columns.entries import EntrySlice
from spark_pulsar.wire.columns.kernels.property_kernels import key_hash
from spark_pulsar.wire.pulsar_api_pb2 import SingleMessageMetadata
from tests.unit.wire.columns import forge, oracle
from tests.unit.wire.columns.decode import decode_entries
from tests.unit.wire.columns.test_decode import batch_of

Pairs = list[tuple[bytes, bytes]]

_NAMES = [b"", b"a", b"id", b"type", b"trace", b"property-01", b"property-02", b"a name of many letters", b"n" * 130]
_ODD_NAMES = [b"\xff", b"\xfe", "日本é".encode(), b"\xed\xa0\x80", b"trace\xff"]
_LENGTHS = [0, 1, 5, 15, 16, 17, 40, 126, 127, 128, 300]


def value(rng: Random) -> bytes:
    return rng.choice([b"v", b"v", b"v", b"\xff", "é".encode()]) * rng.choice(_LENGTHS)


def pattern(rng: Random) -> Pairs:
    names = rng.choices(_NAMES + _ODD_NAMES if rng.random() < 0.3 else _NAMES, k=rng.choice([0, 1, 2, 5, 12, 70]))
    return [(name, value(rng)) for name in (names if rng.random() < 0.2 else dict.fromkeys(names))]


def shuffle(rng: Random, pairs: Pairs) -> None:
    rng.shuffle(pairs)


def drop_one(rng: Random, pairs: Pairs) -> None:
    del pairs[rng.randrange(len(pairs))]


def repeat(rng: Random, pairs: Pairs) -> None:
    pairs.insert(rng.randrange(len(pairs) + 1), (rng.choice(pairs)[0], value(rng)))


def rename(rng: Random, pairs: Pairs) -> None:
    at = rng.randrange(len(pairs))
    name = bytearray(pairs[at][0] or b"x")
    name[rng.randrange(len(name))] ^= 1
    pairs[at] = (bytes(name), pairs[at][1])


def other_values(rng: Random, pairs: Pairs) -> None:
    for at in rng.sample(range(len(pairs)), rng.randrange(1, len(pairs) + 1)):
        pairs[at] = (pairs[at][0], value(rng))


_CHANGES: list[Callable[[Random, Pairs], None]] = [shuffle, drop_one, repeat, rename, other_values, other_values]


def key_value(rng: Random, pair: tuple[bytes, bytes]) -> bytes:
    """A KeyValue; at times in a form that official clients do not write, and that means the same."""
    name, text = ((1, pair[0]), (2, pair[1]))
    fields = [name, text]
    if rng.random() < 0.06:
        fields.reverse()
    if rng.random() < 0.03:
        fields.insert(0, (rng.choice([1, 2]), b"overridden"))
    parts = [forge.encoded(rng, *each) if rng.random() < 0.1 else plain(*each) for each in fields]
    if rng.random() < 0.04:
        parts.insert(rng.randrange(3), forge.unknown_field(rng))
    return b"".join(parts)


def plain(field: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])
    return bytes([field << 3 | 2]) + length + content


def metadata(rng: Random, pairs: Pairs, field: int, rest: list[tuple[int, int | bytes]]) -> bytes:
    """Metadata whose properties are field number ``field``, at times with other fields between them."""
    parts = []
    for pair in pairs:
        content = key_value(rng, pair)
        parts.append(forge.encoded(rng, field, content) if rng.random() < 0.03 else plain(field, content))
    others = [forge.encoded(rng, *each) for each in rest]
    if rng.random() < 0.2:
        for each in others:
            parts.insert(rng.randrange(len(parts) + 1), each)
        return b"".join(parts)
    return b"".join(others + parts if field == 4 else parts + others)


def entry_of(rng: Random, messages: list[Pairs], is_batch: bool) -> bytes:
    if not is_batch:
        head = metadata(rng, messages[0], 4, [(1, b"p"), (2, rng.choice([0, 300])), (3, 1)])
        return struct.pack(">I", len(head)) + head + bytes(rng.choice([0, 0, 400]))
    payload = b""
    for pairs in messages:
        size = rng.choice([0, 3, 300])
        head = metadata(rng, pairs, 1, [(3, size)])
        payload += struct.pack(">I", len(head)) + head + bytes(size)
    head = plain(1, b"p") + b"\x10\0\x18\1\x58" + bytes([len(messages)])
    return struct.pack(">I", len(head)) + head + payload


def entries_in_turn(rng: Random) -> list[bytes]:
    """Entries of messages that mostly have the properties of the one before, in one or the other way changed."""
    patterns, messages = [pattern(rng) for _ in range(rng.choice([1, 1, 2, 4, 5]))], []
    for _ in range(rng.randrange(2, 16)):
        pairs = rng.choice(patterns)
        if pairs and rng.random() < 0.3:
            rng.choice(_CHANGES)(rng, pairs)
        messages.append([] if rng.random() < 0.1 else list(pairs))
    out = []
    while messages:
        is_batch = rng.random() < 0.7
        count = rng.randrange(1, len(messages) + 1) if is_batch else 1
        out.append(entry_of(rng, messages[:count], is_batch))
        del messages[:count]
    out.append(entry_of(rng, [], is_batch=True) + bytes(500))  # kernels are quicker where more bytes follow
    return out


def read(entries: list[bytes]) -> list[list[tuple[str, str]]] | None:
    try:
        batch = decode_entries([EntrySlice(data, 1, i) for i, data in enumerate(entries)], ["properties"])
    except CorruptMessage:
        return None
    batch.validate(full=True)
    rows: list[list[tuple[str, str]]] = batch.column("properties").to_pylist()
    return rows


def read_by_oracle(entries: list[bytes]) -> list[list[tuple[str, str]]] | None:
    try:
        return [row["properties"] for data in entries for row in oracle.rows_of(EntrySlice(data, 1, 0))]
    except oracle.Refused:
        return None


@pytest.mark.parametrize("seed", range(4))
def test_properties_like_those_before_are_read_as_protobuf_reads_them(seed: int) -> None:
    rng = Random(seed)
    for _ in range(300):
        entries = entries_in_turn(rng)
        found = read(entries)
        assert found is not None
        assert found == read_by_oracle(entries), entries


@pytest.mark.parametrize("seed", range(3))
def test_damaged_properties_are_read_alike_or_refused_by_both(seed: int) -> None:
    rng = Random(seed)
    refused = 0
    for _ in range(500):
        usual = [(rng.choice(_NAMES), b"v" * rng.choice([1, 5, 20, 100])) for _ in range(rng.choice([1, 2, 5]))]
        entries = [entry_of(rng, [usual] * 4, is_batch=True), entry_of(rng, [], is_batch=True) + bytes(500)]
        entries[0] = forge.damaged(rng, entries[0])
        found, expected = read(entries), read_by_oracle(entries)
        if found is None and expected is not None:
            assert any(oracle.anywhere_a_group(EntrySlice(data, 1, 0)) for data in entries), entries
        else:
            assert found == expected, entries
        refused += found is None
    assert 100 < refused < 450


def batch(*metadata: bytes) -> bytes:
    """An entry of messages with this metadata, and bytes behind them."""
    head = plain(1, b"p") + b"\x10\0\x18\1\x58" + bytes([len(metadata)])
    items = (struct.pack(">I", len(each)) + each for each in metadata)
    return struct.pack(">I", len(head)) + head + b"".join(items) + bytes(500)


def test_fields_that_look_like_the_property_before() -> None:
    key, no_value = b"\x09nine-here", b"\x18\0"
    pair = plain(1, key) + plain(2, b"v" * 20)
    usual = plain(1, pair) + no_value
    # A size of two bytes; from its second byte on there is the usual key, with a length of the value to match.
    long = b"\x0a\x90\x0a" + b"\x0a\x09nine-here" + b"\x12\x82\x0a" + b"v" * 1282 + no_value
    partition_key = plain(2, plain(1, key) + plain(2, b"w" * 20)) + usual
    entry = batch(usual, long, usual, partition_key, usual)
    found = read([entry])
    assert found == read_by_oracle([entry])
    assert found is not None
    assert found[1] == [("nine-here", "v" * 1282)]
    assert [row for at, row in enumerate(found) if at != 1] == [[(key.decode(), "v" * 20)]] * 4


def test_properties_that_pass_the_end_of_their_message() -> None:
    first, second = (plain(1, plain(1, key) + plain(2, b"value")) for key in (b"key-1", b"key-2"))
    for usual in (first + second + b"\x18\0", b"\x18\0" + first + second):
        for cut in (usual[:-3], first + b"\x18\0" + second[:-1]):
            assert read([batch(usual, usual, cut)]) is None
            assert read_by_oracle([batch(usual, usual, cut)]) is None


def item(*pairs: tuple[str, str]) -> tuple[SingleMessageMetadata, bytes]:
    message = SingleMessageMetadata()
    for key, text in pairs:
        message.properties.add(key=key, value=text)
    return message, b""


def properties(*items: tuple[SingleMessageMetadata, bytes]) -> list[object]:
    found: list[object] = decode_entries([batch_of(*items)], ["properties"]).column("properties").to_pylist()
    return found


def test_order_changed_a_name_missing_and_a_name_twice_in_the_midst_of_a_run() -> None:
    usual = [("trace", "1"), ("tenant", "x" * 127), ("type", "order"), ("", "é")]
    other = [("trace", "22"), ("tenant", "x" * 128), ("type", ""), ("", "e")]
    twice = [*usual[:2], ("trace", "3"), usual[3]]  # as many as before
    rows = [usual, other, usual[::-1], usual, usual[1:], [], usual, twice, twice, other]
    last = [usual[1], ("trace", "3"), usual[3]]
    assert properties(*(item(*row) for row in rows)) == [last if row is twice else row for row in rows]


def test_names_that_are_made_to_collide_count_once_all_the_same() -> None:
    names = []
    i = 0
    while len(names) < 80:
        name = f"{i:09d}".encode()
        if key_hash(np.frombuffer(name, np.uint8).data, 0, len(name)) & 0xFF == 0:  # type: ignore[arg-type]
            names.append(name.decode())
        i += 1
    pairs = [(name, str(at)) for at, name in enumerate([*names, *names[:40]])]
    expected = [(name, str(at)) for at, name in enumerate([*names, *names[:40]]) if at >= 40]
    few = [("a", "1"), ("b", "2")]
    assert properties(item(*few), item(*pairs), item(*pairs), item(*few)) == [few, expected, expected, few]
