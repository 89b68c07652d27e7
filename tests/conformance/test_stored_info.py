"""What is stored of topics and subscriptions, over REST and the CLI (ADM-73)."""

from __future__ import annotations

import json
from typing import Any

import pulsar
import pytest
from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from tests import changes
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, SHARED, receive, send_all, send_batched
from tests.eventually import eventually


def counted(broker: Broker, entries: int, messages: int, first: str = "", last: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = {
        "entries": entries,
        "messages": messages,
        "filterRejectedEntries": 0,
        "filterAcceptedEntries": entries,
        "filterRescheduledEntries": 0,
        "filterRejectedMessages": 0,
        "filterAcceptedMessages": messages,
        "filterRescheduledMessages": 0,
        "aborted": False,
    }
    if broker.has(changes.MARKERS_COUNTED):
        answer["markerMessages"] = 0
    return answer | ({"firstMessageId": first, "lastMessageId": last} if first else {})


def admin(broker: Broker, *words: str) -> Any:
    done = CliRunner().invoke(app, ["admin", "--admin-url", broker.admin_url, "topics", *words])
    assert (done.exit_code, done.stderr) == (0, ""), (words, done.stderr)
    return json.loads(done.stdout)


def filled(broker: Broker, topic: str) -> list[pulsar.Message]:
    """Six messages and a batch of four, of which `s` has acknowledged the first and the third entry."""
    client = broker.client()
    consumer = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST)
    send_all(client.create_producer(topic), [str(number) for number in range(6)])
    send_batched(client, topic, ["a", "b", "c", "d"])
    messages = receive(consumer, 10)
    consumer.acknowledge(messages[0])
    consumer.acknowledge(messages[2])
    stats = f"{topic_path(topic)}/stats?getPreciseBacklog=true"
    assert eventually(lambda: broker.rest("GET", stats)[1]["subscriptions"]["s"]["msgBacklog"] == 5)
    consumer.close()
    return messages


def test_a_backlog_is_analyzed(broker: Broker, topic: str) -> None:
    # covers ADM-73
    ledger = filled(broker, topic)[0].message_id().ledger_id()
    of = f"{topic_path(topic)}/subscription/s/analyzeBacklog"
    whole = counted(broker, 5, 8, f"{ledger}:1", f"{ledger}:6")
    assert broker.rest("POST", of) == (200, whole)
    assert admin(broker, "analyze-backlog", topic, "-s", "s") == whole
    part = counted(broker, 3, 6, f"{ledger}:4", f"{ledger}:6")
    assert broker.rest("POST", of, {"ledgerId": ledger, "entryId": 4, "partitionIndex": -1}) == (200, part)
    assert admin(broker, "analyze-backlog", topic, "-s", "s", "-p", f"{ledger}:4") == part
    for beyond in ({"ledgerId": ledger, "entryId": 99}, {"ledgerId": ledger + 1000, "entryId": 0}):
        assert broker.rest("POST", of, beyond) == (200, counted(broker, 0, 0))
    assert broker.rest("POST", f"{topic_path(topic)}/subscription/s/skip_all")[0] == 204
    assert broker.rest("POST", of) == (200, counted(broker, 0, 0))


def test_a_backlog_that_cannot_be_analyzed(broker: Broker) -> None:
    topic, parted = broker.topic(), broker.topic(partitions=2)
    broker.client().subscribe(topic, "s").close()
    broker.client().subscribe(parted, "s").close()
    missing = f"Subscription none not found for topic {topic}"
    assert broker.rest("POST", f"{topic_path(topic)}/subscription/none/analyzeBacklog") == (404, {"reason": missing})
    missing = f"Topic {topic}-none not found"
    of = f"{topic_path(topic)}-none/subscription/s/analyzeBacklog"
    assert broker.rest("POST", of) == (404, {"reason": missing})
    refused = "Analyze backlog on a partitioned topic is not allowed, please try do it on specific topic partition"
    assert broker.rest("POST", f"{topic_path(parted)}/subscription/s/analyzeBacklog") == (405, {"reason": refused})
    of = f"{topic_path(parted)}-partition-1/subscription/s/analyzeBacklog"
    assert broker.rest("POST", of) == (200, counted(broker, 0, 0))
    assert broker.rest("POST", f"{topic_path(topic)}/subscription/s/analyzeBacklog", "x")[0] == 400


def test_what_is_stored_of_a_topic(broker: Broker, topic: str) -> None:
    # covers ADM-73
    first = filled(broker, topic)[0].message_id().ledger_id()
    of = topic_path(topic)
    assert broker.rest("PUT", f"{of}/properties", {"a": "1"})[0] == 204
    assert broker.rest("PUT", f"{of}/unload")[0] == 204
    broker.client().create_producer(topic).send(b"in the next ledger")
    status, info = broker.rest("GET", f"{of}/internal-info")
    assert status == 200
    closed, now_open = info["ledgers"]
    assert (closed["ledgerId"], closed["entries"], closed["isOffloaded"]) == (first, 7, False)
    assert closed["size"] > 0
    assert closed["timestamp"] <= now_open["timestamp"]
    assert now_open.keys() == {"ledgerId", "timestamp", "isOffloaded"}
    cursor = info["cursors"]["s"]
    assert cursor["markDelete"] == {"ledgerId": first, "entryId": 0}
    after, last = ({"ledgerId": first, "entryId": entry_id} for entry_id in (1, 2))
    assert cursor["individualDeletedMessages"] == [{"from": after, "to": last}]
    members = {"version", "creationDate", "modificationDate", "cursorsLedgerId", "markDelete"}
    assert cursor.keys() == members | {"individualDeletedMessages"}
    assert info["properties"] == {"a": "1"}
    assert "terminatedPosition" not in info
    assert broker.rest("POST", f"{of}/terminate")[0] == 200
    told = admin(broker, "info-internal", topic)
    assert told["terminatedPosition"] == {"ledgerId": now_open["ledgerId"], "entryId": 0}


def test_what_is_stored_of_partitions(broker: Broker) -> None:
    parted = broker.topic(partitions=2)
    broker.client().subscribe(parted, "s").close()
    status, info = broker.rest("GET", f"{topic_path(parted)}/internal-info")
    assert status == 200
    assert info.keys() == {"version", "partitions"}
    assert info["partitions"].keys() == {f"{parted}-partition-0", f"{parted}-partition-1"}
    assert all(each["cursors"].keys() == {"s"} for each in info["partitions"].values())


@pytest.mark.ours_only("ADM-73: 4.0.8 answers 500 with a page about an error")
def test_nothing_is_stored_of_what_is_not_there(broker: Broker) -> None:
    of = topic_path(broker.topic())
    assert broker.rest("GET", f"{of}/internal-info")[0] == 404
    assert broker.rest("GET", f"{of.replace('/persistent/', '/non-persistent/')}/internal-info")[0] == 405


def test_the_backlog_of_a_topic_that_is_not_there(broker: Broker, topic: str) -> None:
    status, answer = broker.rest("GET", f"{topic_path(topic)}/backlog")
    name = topic.rpartition("/")[2]
    assert answer.pop("statGeneratedAt") > 0
    assert (status, answer) == (
        200,
        {
            "storageSize": 0,
            "totalMessages": 0,
            "messageBacklog": 0,
            "brokerName": "127.0.0.1",
            "topicName": f"public/default/persistent/{name}",
            "dataLedgerDetails": [],
            "cursorDetails": {},
        },
    )


@pytest.mark.ours_only("ADM-73: 4.0.8 takes a minute for a topic with subscriptions, and tells zeros then")
def test_the_backlog_of_a_topic(broker: Broker, topic: str) -> None:
    ledger = filled(broker, topic)[0].message_id().ledger_id()
    status, answer = broker.rest("GET", f"{topic_path(topic)}/backlog")
    assert status == 200
    assert (answer["totalMessages"], answer["messageBacklog"]) == (7, 5)
    assert answer["cursorDetails"] == {"s": {"cursorBacklog": 5, "cursorLedgerId": -1}}
    [detail] = answer["dataLedgerDetails"]
    assert (detail["ledgerId"], detail["entries"], detail["size"]) == (ledger, 7, answer["storageSize"])
    assert detail["size"] > 0
