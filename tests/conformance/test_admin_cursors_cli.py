"""`spark-pulsar admin topics …` of subscriptions and messages, against any Pulsar."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from spark_pulsar.cli.main import app
from tests.brokers import Broker
from tests.conformance.exchange import send_all, send_batched
from tests.eventually import eventually


def run(broker: Broker, *words: str) -> Result:
    """`spark-pulsar admin topics WORDS`."""
    return CliRunner().invoke(app, ["admin", "--admin-url", broker.admin_url, "topics", *words])


def admin(broker: Broker, *words: str) -> str:
    """The same, which must succeed; what it printed."""
    done = run(broker, *words)
    assert (done.exit_code, done.stderr) == (0, ""), (words, done.stderr)
    return done.stdout


def backlog(broker: Broker, topic: str, subscription: str = "s") -> int:
    stats = json.loads(admin(broker, "stats", topic, "-gpb"))
    return int(stats["subscriptions"][subscription]["msgBacklog"])


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic with a subscription `s` and five messages after it."""
    topic = broker.topic()
    client = broker.client()
    client.subscribe(topic, "s").close()
    send_all(client.create_producer(topic), [str(number) for number in range(5)])
    return topic


def test_subscriptions_are_created_listed_and_deleted(broker: Broker, topic: str) -> None:
    # covers CUR-9, CUR-16, CUR-19, ADM-71
    assert admin(broker, "create-subscription", topic, "-s", "all", "-m", "earliest", "-p", "k=v") == ""
    assert admin(broker, "create-subscription", topic, "-s", "new") == ""
    assert sorted(admin(broker, "subscriptions", topic).split()) == ["all", "new", "s"]
    assert (backlog(broker, topic, "all"), backlog(broker, topic, "new")) == (5, 0)
    assert json.loads(admin(broker, "get-subscription-properties", topic, "-s", "all")) == {"k": "v"}
    assert admin(broker, "update-subscription-properties", topic, "-s", "all", "--clear") == ""
    assert json.loads(admin(broker, "get-subscription-properties", topic, "-s", "all")) == {}
    assert admin(broker, "unsubscribe", topic, "-s", "all") == ""
    assert sorted(admin(broker, "subscriptions", topic).split()) == ["new", "s"]
    refused = run(broker, "unsubscribe", topic, "-s", "all")
    assert (refused.exit_code, "Subscription all not found" in refused.stderr) == (1, True)


def test_a_subscription_is_moved(broker: Broker, topic: str) -> None:
    # covers CUR-11, CUR-12, CUR-14, TTL-8
    assert admin(broker, "skip", topic, "-s", "s", "-n", "2") == ""
    assert backlog(broker, topic) == 3
    assert admin(broker, "reset-cursor", topic, "-s", "s", "-m", "earliest") == ""
    assert backlog(broker, topic) == 5
    last = json.loads(admin(broker, "last-message-id", topic))
    place = f"{last['ledgerId']}:{last['entryId'] - 1}"
    assert admin(broker, "reset-cursor", topic, "-s", "s", "-m", place, "-e") == ""
    assert backlog(broker, topic) == 1
    assert admin(broker, "reset-cursor", topic, "-s", "s", "-t", "1h") == ""
    assert backlog(broker, topic) == 5
    assert admin(broker, "expire-messages", topic, "-s", "s", "-t", "1h") == ""
    # Apache Pulsar answers before it is done, and refuses the next one until then.
    assert eventually(lambda: run(broker, "expire-messages-all-subscriptions", topic, "-t", "1h").exit_code == 0)
    assert backlog(broker, topic) == 5
    assert admin(broker, "clear-backlog", topic, "-s", "s") == ""
    assert backlog(broker, topic) == 0


def test_messages_are_shown(broker: Broker, topic: str) -> None:
    # covers CUR-15, ADM-71 (peek-messages)
    send_batched(broker.client(), topic, ["batch a", "batch b"])
    shown = admin(broker, "peek-messages", topic, "-s", "s", "-n", "9")
    assert [f"|{number}|" in shown for number in range(5)] == [True] * 5
    assert shown.count("Message ID: ") == 7
    assert "|batch a|" in shown
    assert "|batch b|" in shown
    last = json.loads(admin(broker, "last-message-id", topic))
    ledger, entry = str(last["ledgerId"]), str(last["entryId"] - 1)
    assert f"Batch Message ID: {ledger}:{last['entryId']}:-1:1\n" in shown
    assert f"Message ID: {ledger}:{entry}:-1:-1\n" in shown
    assert "|4|" in admin(broker, "get-message-by-id", topic, "-l", ledger, "-e", entry)
    assert "|0|" in admin(broker, "examine-messages", topic, "-i", "earliest", "-m", "1")
    first = json.loads(admin(broker, "get-message-id", topic, "-d", "2020-01-01T00:00:00.000+00:00"))
    assert (first["ledgerId"], first["entryId"]) == (last["ledgerId"], last["entryId"] - 5)
    assert backlog(broker, topic) >= 6
    assert run(broker, "get-message-by-id", topic, "-l", ledger + "000", "-e", "0").exit_code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("reset-cursor", "-s", "s"),
        ("reset-cursor", "-s", "s", "-t", "1h", "-m", "1:1"),
        ("reset-cursor", "-s", "s", "-m", "nonsense"),
        ("expire-messages", "-s", "s"),
        ("expire-messages", "-s", "s", "-t", "soon"),
        ("update-subscription-properties", "-s", "s"),
        ("get-message-id", "-d", "yesterday"),
    ],
    ids=" ".join,
)
def test_wrong_command_lines_say_what_is_wanted(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["admin", "topics", words[0], "t", *words[1:]])
    assert done.exit_code == 2
    assert f"admin topics {words[0]} --help" in done.stderr
