from __future__ import annotations

import pytest

from spark_pulsar.admin.http.answers import MAX_DEPTH, parse_body
from spark_pulsar.admin.http.refusals import Refused


def test_half_of_a_surrogate_pair_is_refused() -> None:
    # Nothing could store it: the journal's texts are UTF-8.
    with pytest.raises(Refused, match="no JSON"):
        parse_body(b'{"a": "\\ud800"}')
    assert parse_body(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 100_000])
def test_a_body_that_nests_too_deep_is_refused(opening: bytes, closing: bytes, depth: int) -> None:
    # Also where it can just be read: it could not be written again.
    with pytest.raises(Refused, match="nested more than 100 deep"):
        parse_body(opening * depth + b"1" + closing * depth)
    parse_body(opening * MAX_DEPTH + b"1" + closing * MAX_DEPTH)
    parse_body(b"[" + b"[]," * 1_000 + b"1]")
