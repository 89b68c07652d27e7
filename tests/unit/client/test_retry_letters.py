"""Retry letters whose properties are odd, and their topics; `tests/conformance/test_dead_letters.py` has the others."""

from __future__ import annotations

import pytest

from spark_pulsar.client.retry_letters import RetryLetters, letter

TOPIC = "persistent://public/default/my-topic"


@pytest.mark.parametrize(("given", "times"), [("", "1"), ("x", "1"), ("7", "8")])
def test_a_count_that_is_none_counts_as_none(given: str, times: str) -> None:
    assert letter({"RECONSUMETIMES": given}, TOPIC, "s", "1:2:-1", -5).properties["RECONSUMETIMES"] == times


def test_a_negative_delay_is_none() -> None:
    # covers RLQ-3
    assert letter({}, TOPIC, "s", "1:2:-1", -5).delay_ms == 0
    assert letter({}, TOPIC, "s", "1:2:-1", -5).properties["DELAY_TIME"] == "0"


def test_the_names_of_the_topics() -> None:
    # covers RLQ-1, DLQ-3
    letters = RetryLetters(None, "my-topic-partition-3", "sub")
    assert letters.topics == [TOPIC, f"{TOPIC}-sub-RETRY"]
    assert letters.dead_letter_topic == f"{TOPIC}-sub-DLQ"
    assert RetryLetters(None, "t", "s", retry_letter_topic="a", dead_letter_topic="b").dead_letter_topic == "b"
