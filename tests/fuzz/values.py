"""Values that attacks are made of: names that exist or might, numbers at the ends of their types, texts that break."""

from __future__ import annotations

from random import Random
from typing import Any, Final

TENANTS: Final = ("public", "fuzz", "ghosts")
NAMESPACES: Final = ("public/default", "fuzz/one", "fuzz/two", "fuzz/gone")
LOCAL_NAMES: Final = (
    *("a", "b", "c", "d", "p", "p-partition-0", "p-partition-1", "p-partition-7", "e%2Ff", "é", "__x", "q" * 200),
)
SUBSCRIPTIONS: Final = ("s0", "s1", "s2", "s/3", "ü", "__compaction", "pulsar.dedup", "s" * 300)
PRODUCERS: Final = ("", "p0", "p1", "standalone-0-1", "x" * 500)

INTEGERS: Final = (
    *(0, 1, 2, 3, 7, 63, 64, 65, 127, 128, 255, 256, 1_000, 65_535, 65_536, 1_000_000),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1),
)
TEXTS: Final = (
    *("", " ", "\0", "..", "../..", "/", "//", "a/b", "a/b/c", "a/b/c/d", "persistent://", "persistent://a"),
    *("persistent:///", "persistent://public/default/", "non-persistent://public/default/a", "http://x/y/z"),
    *("PERSISTENT://public/default/a", "persistent://public/default/a-partition-99999999999"),
    *("persistent://public/default/-partition-0", "a-partition--1", "%00", "%2e%2e%2f", "%ff", "\r\nX: y"),
    *("'; DROP TABLE topics; --", "{{7*7}}", "${x}", "\u202e", "\ufeff", "\U0001f9ea", "*", ".*", "(a+)+$"),
    *("(?i)a", "[", "(?P<x>", "a{1000}{1000}", "\\Q", "x" * 300, "x" * 5_000, "é" * 2_000, "/" * 1_000, "null"),
    *("true", "-1", "NaN", "1e999", "Infinity", "0x10", "1_000", "９", "१२", " 1", "+1", "1.5", "9" * 50),
    "9" * 5_000,
)
BYTES: Final = (
    *(b"", b"\0", b"\xff" * 8, b"\xff\xfe\xfd", b"\xc3\x28", b"\xed\xa0\x80", b"\0" * 8, b"\0" * 1_000),
    b"x" * 70_000,
)


def topic(choices: Random) -> str:
    """Draws the full name of a topic that attacks may use."""
    domain = "persistent" if choices.random() < 0.85 else "non-persistent"
    return f"{domain}://{_first_often(choices, NAMESPACES)}/{_first_often(choices, LOCAL_NAMES)}"


def subscription(choices: Random) -> str:
    """Draws the name of a subscription."""
    return _first_often(choices, SUBSCRIPTIONS)


def namespace(choices: Random) -> str:
    """Draws a namespace."""
    return _first_often(choices, NAMESPACES)


def integer(choices: Random) -> int:
    """Draws a number, mostly one at the end of a type or beside it."""
    if choices.random() < 0.7:
        return choices.choice(INTEGERS)
    return choices.getrandbits(choices.choice((1, 4, 8, 16, 31, 33, 63, 64)))


def text(choices: Random) -> str:
    """Draws a text that something may break upon."""
    if choices.random() < 0.8:
        return choices.choice(TEXTS)
    return "".join(
        chr(choices.choice((choices.randrange(32, 127), choices.randrange(0xA0, 0xD800))))
        for _ in range(choices.randrange(40))
    )


def octets(choices: Random) -> bytes:
    """Draws bytes, some of which are no UTF-8."""
    if choices.random() < 0.6:
        return choices.choice(BYTES)
    return choices.randbytes(choices.choice((1, 3, 8, 40, 400)))


def json_value(choices: Random, depth: int = 0) -> Any:
    """Draws a value of JSON; NaN and infinities are written as Python and many others write them."""
    kind = choices.randrange(9 if depth < 3 else 6)
    if kind == 0:
        return choices.choice((None, True, False))
    if kind == 1:
        return choices.choice((1, -1)) * integer(choices)
    if kind == 2:
        return choices.choice((float("nan"), float("inf"), -0.0, 1e308, 0.5, -1.5))
    if kind in (3, 4, 5):
        return text(choices)
    if kind == 6:
        return [json_value(choices, depth + 1) for _ in range(choices.randrange(5))]
    return {text(choices)[:50]: json_value(choices, depth + 1) for _ in range(choices.randrange(5))}


def _first_often(choices: Random, values: tuple[str, ...]) -> str:
    return values[min(choices.randrange(len(values)), choices.randrange(len(values)))]
