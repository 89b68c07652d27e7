"""Access modes of producers, through the official client and frame by frame."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive_texts
from tests.raw import Frame, RawConnection

EARLIEST = pulsar.InitialPosition.Earliest
MODES = pulsar.ProducerAccessMode


def ask(raw: RawConnection, topic: str, name: str, mode: str, producer_id: int = 1, **fields: Any) -> Frame:
    raw.request("LOOKUP", topic=topic)
    return raw.request(
        "PRODUCER", topic=topic, producer_id=producer_id, producer_name=name, producer_access_mode=mode, **fields
    )


def test_an_exclusive_producer_keeps_all_others_away(broker: Broker) -> None:
    # covers PR-3, PR-4
    topic = broker.topic()
    client = broker.client()
    holder = client.create_producer(topic, access_mode=MODES.Exclusive)
    for mode, error in ((MODES.Exclusive, pulsar.ProducerFenced), (MODES.Shared, pulsar.ProducerBusy)):
        with pytest.raises(error):
            client.create_producer(topic, access_mode=mode)
    holder.send(b"x")
    holder.close()
    client.create_producer(topic).send(b"y")
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    assert receive_texts(consumer, 2) == ["x", "y"]


def test_a_shared_producer_keeps_an_exclusive_one_away(broker: Broker) -> None:
    # covers PR-4
    topic = broker.topic()
    client = broker.client()
    client.create_producer(topic)
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=MODES.Exclusive)


def test_what_is_said_to_who_may_not_produce(broker: Broker) -> None:
    # covers PR-3, PR-4
    topic = broker.topic()
    raw = broker.raw()
    assert ask(raw, topic, "a", "Exclusive")["topic_epoch"] == 0
    fenced = ask(raw, topic, "b", "Exclusive", 2)
    busy = ask(raw, topic, "b", "Shared", 3)
    assert (fenced["error"], busy["error"]) == ("ProducerFenced", "ProducerBusy")
    assert fenced["message"].endswith("Topic has an existing exclusive producer: a")
    assert busy["message"].endswith("Topic has an existing exclusive producer: a")


def test_waiters_get_the_topic_one_by_one_in_their_order(broker: Broker) -> None:
    # covers PR-6
    topic = broker.topic()
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


def test_who_waits_keeps_others_away_and_shows_in_the_statistics(broker: Broker) -> None:
    # covers PR-3, PR-6, PR-7 (topicEpoch)
    topic = broker.topic()
    raw, waiting = broker.raw(), broker.raw()
    ask(raw, topic, "a", "Exclusive")
    assert not ask(waiting, topic, "b", "WaitForExclusive")["producer_ready"]
    status, stats = broker.rest("GET", f"{topic_path(topic)}/stats")
    assert status == 200
    assert (stats["waitingPublishers"], stats["topicEpoch"]) == (1, 0)
    assert [publisher["accessMode"] for publisher in stats["publishers"]] == ["Exclusive"]
    assert ask(raw, topic, "c", "Exclusive", 2)["error"] == "ProducerFenced"


def test_a_send_of_who_waits_ends_the_connection(broker: Broker) -> None:
    # covers PR-6
    topic = broker.topic()
    raw, waiting = broker.raw(), broker.raw()
    ask(raw, topic, "a", "Exclusive")
    ask(waiting, topic, "b", "WaitForExclusive")
    waiting.send_message(1, 0, b"x")
    waiting.expect_closed()


def test_fencing_takes_the_topic_and_nothing_of_the_old_holder_is_stored_after(broker: Broker) -> None:
    # covers PR-5, PR-8
    topic = broker.topic()
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


def test_the_official_client_hears_of_its_loss_at_its_next_send(broker: Broker) -> None:
    # covers PR-5, PR-8
    topic = broker.topic()
    old, new = broker.client(), broker.client()
    loser = old.create_producer(topic, access_mode=MODES.Exclusive)
    loser.send(b"before")
    winner = new.create_producer(topic, access_mode=MODES.ExclusiveWithFencing)
    with pytest.raises(pulsar.PulsarException):
        loser.send(b"after")
    winner.send(b"mine")
    consumer = new.subscribe(topic, "s", initial_position=EARLIEST)
    assert receive_texts(consumer, 2) == ["before", "mine"]


def test_an_exclusive_producer_survives_an_unload(broker: Broker) -> None:
    # covers PR-4, PR-17
    topic = broker.topic()
    client = broker.client()
    # Without it the ledger that the unloading ends would be nobody's.
    client.subscribe(topic, "s", initial_position=EARLIEST).close()
    holder = client.create_producer(topic, access_mode=MODES.Exclusive)
    holder.send(b"a")
    assert broker.rest("PUT", f"{topic_path(topic)}/unload")[0] == 204
    holder.send(b"b")
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=MODES.Exclusive)
    assert receive_texts(client.subscribe(topic, "s"), 2) == ["a", "b"]
