"""Reasons of payloads that are no JSON: those that a kernel finds are Python's, word by word."""

from __future__ import annotations

import decimal
import json
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.schemas.decoding.json_faults import faults_of

DECODER = json.JSONDecoder(parse_float=decimal.Decimal)
WHOLE = (
    '\ufeff {"a" :\t[1, -2.5e+7,\n0, true, false, null, "日本é\\u00e9\\n", [] ,{}], "é":{"x": {"y":[{"z": ""}]}},\r\n'
    ' "d": 1E400, "e": "\\ud83d\\ude00\\\\" } \n'
).encode()
PARTS = (
    *(
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "\\",
        "\n",
        " ",
        '"a"',
        '"é"',
        "1",
        "-",
        "0",
        ".",
        "e",
        "+",
        "1.5",
        "-0",
        "1e",
    ),
    *("true", "nul", "NaN", "-Infinity", "\\u", "\x01", "\ufeff", '"a":1', '{"a":', '"b"', "9" * 30, "1e9999999"),
)


def reason(payload: bytes) -> str | None:
    """Python's error of a text that is no JSON."""
    text = payload.decode("utf-8-sig")
    try:
        DECODER.decode(text)
    except json.JSONDecodeError as error:
        return f"it is no JSON of its schema: {error}"
    except (ValueError, ArithmeticError):
        return "another"
    return None


def check(payloads: list[bytes]) -> int:
    """Compares the reasons of payloads; returns how many the kernel has found."""
    rows = np.arange(0, len(payloads), 1)
    found = faults_of(pa.array([b"}", *payloads], pa.binary()), rows + 1)
    for row, text in found.items():
        assert text == reason(payloads[row - 1]), payloads[row - 1]
    return len(found)


def test_each_beginning_of_a_payload_has_the_reason_that_python_has() -> None:
    # covers SCHEMA-18
    ends = [end for end in range(len(WHOLE)) if is_text(WHOLE[:end])]
    beginnings = [WHOLE[:end] for end in ends]
    assert check(beginnings) == sum("escape" not in (reason(payload) or "escape") for payload in beginnings)


def test_each_changed_byte_of_a_payload_has_the_reason_that_python_has() -> None:
    # covers SCHEMA-18
    changed = [
        WHOLE[:at] + other + WHOLE[at + 1 :]
        for at in range(len(WHOLE))
        for other in (b"", b" ", b"\n", b'"', b"\\", b",", b":", b"}", b"]", b"{", b"[", b"0", b".", b"n", b"\x00")
    ]
    changed = [payload for payload in changed if is_text(payload)]
    assert check(changed) > len(changed) // 2


def is_text(payload: bytes) -> bool:
    """Whether it is UTF-8; another payload has no reason from the kernel."""
    try:
        payload.decode("utf-8-sig")
    except UnicodeDecodeError:
        assert not faults_of(pa.array([payload], pa.binary()), np.arange(1))
        return False
    return True


@given(st.integers(0, 2**63))
def test_texts_of_random_parts_have_the_reason_that_python_has(seed: int) -> None:
    # covers SCHEMA-18
    random = Random(seed)
    check(["".join(random.choices(PARTS, k=random.randrange(12))).encode() for _ in range(200)])


def test_what_is_nested_too_deep_for_python_is_left_to_it() -> None:
    # covers SCHEMA-18
    payloads = [b"[" * depth + b"1" + b"]" * (depth - 1) for depth in (99, 100, 101, 100_000)]
    payloads += [b'{"a":' * depth for depth in (100, 101, 100_000)]
    payloads += [b"[" + b"9" * 5_000, b"1e99999999 2", b"["]
    rows = np.arange(len(payloads))
    assert list(faults_of(pa.array(payloads, pa.binary()), rows)) == [0, 1, 4, 9]
