"""Retry letters: copies published in place of a message that failed."""

from __future__ import annotations

import pytest

from spark_pulsar.client.retry_letters import RetryLetters, letter

TOPIC = "persistent://public/default/my-topic"


def test_the_first_retry_remembers_where_the_message_came_from() -> None:
    # covers RLQ-3
    first = letter({"k": "v"}, f"{TOPIC}-partition-4", "sub", "1:2:-1", 3_000)
    assert first.properties == {
        "k": "v",
        "REAL_TOPIC": TOPIC,
        "REAL_SUBSCRIPTION": "sub",
        "ORIGIN_MESSAGE_ID": "1:2:-1",
        "ORIGIN_MESSAGE_IDY_TIME": "1:2:-1",
        "RECONSUMETIMES": "1",
        "DELAY_TIME": "3000",
    }
    assert (first.is_dead, first.delay_ms) == (False, 3_000)


def test_later_ones_count_and_keep_the_origin() -> None:
    # covers RLQ-3
    properties: dict[str, str] = {}
    for number in (1, 2, 3):
        found = letter(
            properties, f"{TOPIC}-{number}", "s", f"{number}:0:-1", number, custom_properties={"c": str(number)}
        )
        properties = found.properties
    assert properties == {
        "c": "3",
        "REAL_TOPIC": f"{TOPIC}-1",
        "REAL_SUBSCRIPTION": "s",
        "ORIGIN_MESSAGE_ID": "1:0:-1",
        "ORIGIN_MESSAGE_IDY_TIME": "1:0:-1",
        "RECONSUMETIMES": "3",
        "DELAY_TIME": "3",
    }


def test_the_last_one_is_dead() -> None:
    # covers RLQ-4
    properties: dict[str, str] = {}
    dead = []
    for _ in range(3):
        found = letter(properties, TOPIC, "s", "1:2:-1", 10, 2)
        properties = found.properties
        dead.append((found.is_dead, found.delay_ms))
    assert dead == [(False, 10), (False, 10), (True, 0)]


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
