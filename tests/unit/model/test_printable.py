"""Text without control characters: each code point, and what JSON makes of the escapes."""

import json
import sys
import unicodedata

from spark_pulsar.model.printable import one_line, printable

BIDIRECTIONAL = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}


def test_no_control_character_is_left_and_nothing_else_changes() -> None:
    for point in range(sys.maxunicode + 1):
        text = chr(point)
        is_control = unicodedata.category(text) in ("Cc", "Cs", "Zl", "Zp") or point in BIDIRECTIONAL
        shown = printable(text)
        assert (shown == text) == (not is_control or text in "\t\n"), hex(point)
        if shown != text:
            assert json.loads(f'"{shown}"') == text
    assert printable("a\x1b]0;b\x07\x9b31m\u202ec") == r"a\u001b]0;b\u0007\u009b31m\u202ec"


def test_a_line_stays_one() -> None:
    assert one_line("a\nb\tc\r\x85\u2028é") == r"a\u000ab\u0009c\u000d\u0085\u2028é"
