from __future__ import annotations

import pytest

from spark_pulsar.admin.answers import Refused, parse_body


def test_half_of_a_surrogate_pair_is_refused() -> None:
    # Nothing could store it: the journal's texts are UTF-8.
    with pytest.raises(Refused, match="no JSON"):
        parse_body(b'{"a": "\\ud800"}')
    assert parse_body(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}
