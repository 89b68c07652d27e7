"""Keys of the option `keys`: how they are written, and every hash that an official client may have for them."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.options.keys import MOST_KEYS, Keys, read_keys
from spark_pulsar.wire.keys.murmur3 import murmur3_32
from tests.unit.wire import key_hashes


@pytest.mark.parametrize(
    ("text", "texts", "encoded"),
    [
        ("a", {"a"}, set()),
        ("a, b ,a", {"a", "b"}, set()),
        ('["a,b", "", "é"]', {"a,b", "", "é"}, set()),
        ('["a", {"base64": "AP8="}]', {"a"}, {"AP8="}),
        ('[{"base64": ""}]', set(), {""}),
    ],
)
def test_keys_as_text_and_as_json(text: str, texts: set[str], encoded: set[str]) -> None:
    expected = Keys(frozenset(key.encode() for key in texts), frozenset(key.encode() for key in encoded))
    assert read_keys(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a,,b", "a key is empty"),
        ("", "a key is empty"),
        ("[]", "0 keys"),
        (json.dumps([str(number) for number in range(MOST_KEYS + 1)]), "10001 keys, expected 1 to 10000"),
        ("[1]", "not 1"),
        ("[null]", "not null"),
        ('[{"base64": 1}]', 'not {"base64": 1}'),
        ('[{"base64": "A"}]', "is no base64"),
        ('["a"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('["\\ud800"]', "surrogate"),
    ],
)
def test_what_is_no_list_of_keys_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_keys(text)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_hashes_are_those_of_every_official_client(keys: list[str]) -> None:
    # covers READ-23
    found = read_keys(json.dumps(keys))
    java = {hashed(key) for key in keys for hashed in _JAVA}
    assert found.hashes("JavaStringHash") == java
    assert found.hashes("Murmur3_32Hash") == {murmur3_32(key.encode()) for key in keys}
    assert found.hashes("BoostHash") >= {key_hashes.boost_hash(key.encode()) for key in keys}


_JAVA = (key_hashes.java_string_hash, key_hashes.java_string_hash_cpp, key_hashes.java_string_hash_go)


def test_hashes_of_clients_with_an_older_boost() -> None:
    # measured: partitions of 997 that the official Python client 3.4.0 chose
    chosen = {"a": 595, "abcdefghi": 936, "é": 395}
    for key, partition in chosen.items():
        found = read_keys(json.dumps([key])).hashes("BoostHash")
        assert {value % 997 for value in found} == {partition, key_hashes.boost_hash(key.encode()) % 997}


def test_bytes_are_hashed_as_their_base64_text() -> None:
    encoded = base64.b64encode(b"\x00\xff").decode()
    assert read_keys(f'[{{"base64": "{encoded}"}}]').hashes("Murmur3_32Hash") == {murmur3_32(encoded.encode())}
