"""Access modes of producers."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, receive_texts
from tests.raw import Frame, RawConnection

MODES = pulsar.ProducerAccessMode


def ask(raw: RawConnection, topic: str, name: str, mode: str, producer_id: int = 1, **fields: Any) -> Frame:
    raw.request("LOOKUP", topic=topic)
    return raw.request(
        "PRODUCER", topic=topic, producer_id=producer_id, producer_name=name, producer_access_mode=mode, **fields
    )


def test_what_is_said_to_who_may_not_produce(raw: RawConnection, topic: str) -> None:
    # covers PR-3, PR-4
    assert ask(raw, topic, "a", "Exclusive")["topic_epoch"] == 0
    fenced = ask(raw, topic, "b", "Exclusive", 2)
    busy = ask(raw, topic, "b", "Shared", 3)
    assert (fenced["error"], busy["error"]) == ("ProducerFenced", "ProducerBusy")
    assert fenced["message"].endswith("Topic has an existing exclusive producer: a")
    assert busy["message"].endswith("Topic has an existing exclusive producer: a")
    raw.request("CLOSE_PRODUCER", producer_id=1)
    assert ask(raw, topic, "b", "Shared", 4).type == "PRODUCER_SUCCESS"
    assert ask(raw, topic, "a", "Exclusive", 5)["error"] == "ProducerFenced"


def test_waiters_get_the_topic_one_by_one_in_their_order(broker: Broker, topic: str) -> None:
    # covers PR-6
    raw, second, third = broker.raw(), broker.raw(), broker.raw()
    assert ask(raw, topic, "a", "WaitForExclusive")["producer_ready"]
    waits = [ask(each, topic, name, "WaitForExclusive") for each, name in ((second, "b"), (third, "c"))]
    assert [wait["producer_ready"] for wait in waits] == [False, False]
    assert "topic_epoch" not in waits[0].fields
    raw.request("CLOSE_PRODUCER", producer_id=1)
    ready = second.expect("PRODUCER_SUCCESS")
    assert (ready["request_id"], ready["producer_ready"], ready["topic_epoch"]) == (waits[0]["request_id"], True, 1)
    third.barrier()
    second.send_message(1, 0, b"x")
    assert second.expect("SEND_RECEIPT")["sequence_id"] == 0
    second.close()
    ready = third.expect("PRODUCER_SUCCESS")
    assert (ready["request_id"], ready["producer_ready"], ready["topic_epoch"]) == (waits[1]["request_id"], True, 2)


def test_who_waits_keeps_others_away_and_shows_in_the_statistics(broker: Broker, topic: str) -> None:
    # covers PR-3, PR-6, PR-7 (topicEpoch)
    raw, waiting = broker.raw(), broker.raw()
    ask(raw, topic, "a", "Exclusive")
    assert not ask(waiting, topic, "b", "WaitForExclusive")["producer_ready"]
    stats = broker.stats(topic)
    assert (stats["waitingPublishers"], stats["topicEpoch"]) == (1, 0)
    assert [publisher["accessMode"] for publisher in stats["publishers"]] == ["Exclusive"]
    assert ask(raw, topic, "c", "Exclusive", 2)["error"] == "ProducerFenced"
    waiting.send_message(1, 0, b"x")
    waiting.expect_closed()


def test_fencing_takes_the_topic_and_nothing_of_the_old_holder_is_stored_after(broker: Broker, topic: str) -> None:
    # covers PR-5, PR-8
    holder, waiting, fencing = broker.raw(), broker.raw(), broker.raw()
    ask(holder, topic, "a", "Exclusive")
    wait = ask(waiting, topic, "b", "WaitForExclusive")
    holder.send_message(1, 0, b"before")
    holder.expect("SEND_RECEIPT")
    assert ask(fencing, topic, "f", "ExclusiveWithFencing")["topic_epoch"] == 1
    refused = waiting.answer(wait["request_id"])
    assert (refused.type, refused["error"]) == ("ERROR", "ProducerFenced")
    assert refused["message"].endswith("Fenced out")
    holder.send_message(1, 1, b"after")
    holder.expect_closed()
    again = ask(broker.raw(), topic, "a", "Exclusive", topic_epoch=0)
    assert (again.type, again["error"]) == ("ERROR", "ProducerFenced")
    fencing.send_message(1, 0, b"of the new one")
    fencing.expect("SEND_RECEIPT")
    consumer = broker.client().subscribe(topic, "s", initial_position=EARLIEST)
    assert receive_texts(consumer, 2) == ["before", "of the new one"]


def test_an_exclusive_producer_survives_an_unload(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers PR-4, PR-17
    # Without it the ledger that the unloading ends would be nobody's.
    client.subscribe(topic, "s", initial_position=EARLIEST).close()
    holder = client.create_producer(topic, access_mode=MODES.Exclusive)
    holder.send(b"a")
    assert broker.rest("PUT", f"{topic_path(topic)}/unload")[0] == 204
    holder.send(b"b")
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=MODES.Exclusive)
    assert receive_texts(client.subscribe(topic, "s"), 2) == ["a", "b"]
