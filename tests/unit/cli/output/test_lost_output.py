"""Standard output that takes no more: one line on standard error, never a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.brokers import Broker


def ended(*words: str, redirection: str) -> tuple[int, str]:
    """Runs a command with its standard output redirected; returns its status and its standard error."""
    shell = f'"$0" -m spark_pulsar "$@" {redirection}'
    done = subprocess.run(["sh", "-c", shell, sys.executable, *words], stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("redirection", "reason"),
    [("> /dev/full", "No space left on device"), (">&-", "it is closed")],
    ids=["full", "closed"],
)
def test_one_line_says_that_output_is_lost(broker: Broker, redirection: str, reason: str) -> None:
    topic = broker.topic()
    broker.client().create_producer(topic).send(b"a message")
    for words in (
        ("read", topic, "-u", broker.service_url),
        ("read", topic, "-u", broker.service_url, "--values-only"),
        ("admin", "--admin-url", broker.admin_url, "namespaces", "list", "public"),
        ("version",),
    ):
        assert ended(*words, redirection=redirection) == (
            1,
            f"spark-pulsar: standard output takes no more: {reason}\n",
        )


def test_a_reader_that_goes_away_ends_a_command_without_a_word(broker: Broker) -> None:
    words = ("admin", "--admin-url", broker.admin_url, "namespaces", "list", "public")
    assert ended(*words, redirection="| true")[1] == ""
