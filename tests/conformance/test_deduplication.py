"""De-duplication, as producers with names and sequence ids see it."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import expect_nothing, position, receive_texts, send_all
from tests.eventually import eventually
from tests.raw import Frame, RawConnection, batch_payload

EARLIEST_ID = {"ledgerId": -1, "entryId": -1}
MINUS_ONE = 2**64 - 1
# A client that is cut off doubles its pauses: after a restart that took long, its next attempt is as far off again.


def deduplicating(broker: Broker) -> str:
    """A topic with de-duplication on and a subscription `keep` that holds everything.

    In this order, and without a consumer: Apache Pulsar was seen, once, to keep stored messages from a consumer that
    came when the policies of a topic had just changed and an earlier consumer had just left.
    """
    topic = broker.topic()
    assert broker.rest("PUT", topic_path(topic))[0] == 204
    _switch(broker, topic, True)
    assert broker.rest("PUT", f"{topic_path(topic)}/subscription/keep", EARLIEST_ID)[0] == 204
    return topic


def _switch(broker: Broker, topic: str, enabled: bool) -> None:
    status, answer = broker.rest("POST", f"{topic_path(topic)}/deduplicationEnabled", enabled)
    assert status == 204, answer
    wanted = "Enabled" if enabled else "Disabled"
    eventually(lambda: broker.stats(topic)["deduplicationStatus"] == wanted)


def _stored(broker: Broker, topic: str) -> list[str]:
    """All that is stored."""
    found: list[str] = []
    reader = broker.client().create_reader(topic, pulsar.MessageId.earliest)
    while reader.has_message_available():
        found += receive_texts(reader, 1)
    reader.close()
    return found


def opened(broker: Broker, topic: str, name: str = "p") -> tuple[RawConnection, Frame]:
    raw = broker.raw()
    raw.request("LOOKUP", topic=topic)
    return raw, raw.request("PRODUCER", topic=topic, producer_id=1, producer_name=name)


def answer_to(raw: RawConnection, sequence_id: int, payload: bytes = b"x", **fields: Any) -> Frame:
    """What comes back for one SEND, after nothing is under way any more."""
    raw.send_message(1, sequence_id, payload, **fields)
    frame = raw.next_frame(30)
    assert frame is not None
    return frame


def is_repeated(frame: Frame) -> bool:
    assert frame.type == "SEND_RECEIPT", frame
    return frame.position == (MINUS_ONE, MINUS_ONE)


def test_a_sequence_id_is_stored_once(broker: Broker, client: pulsar.Client) -> None:
    # covers DED-2, DED-3, DED-13, X13
    topic = deduplicating(broker)
    producer = client.create_producer(topic, producer_name="p")
    stored = producer.send(b"5", sequence_id=5)
    repeated = producer.send(b"5 again", sequence_id=5)
    lower = producer.send(b"3", sequence_id=3)
    producer.send(b"9", sequence_id=9)
    assert position(stored)[:2] > (0, -1)
    assert [position(each)[:2] for each in (repeated, lower)] == [(-1, -1), (-1, -1)]
    consumer = client.subscribe(topic, "keep")
    assert receive_texts(consumer, 2) == ["5", "9"]
    expect_nothing(consumer)


def test_a_producer_goes_on_where_its_name_stopped(broker: Broker, client: pulsar.Client) -> None:
    # covers DED-11, PR-3
    topic = deduplicating(broker)
    first = client.create_producer(topic, producer_name="p")
    first.send(b"7", sequence_id=7)
    first.close()
    second = client.create_producer(topic, producer_name="p")
    assert second.last_sequence_id() == 7
    second.send(b"next")
    assert second.last_sequence_id() == 8
    other = client.create_producer(topic, producer_name="q", initial_sequence_id=20)
    assert other.last_sequence_id() == 20
    other.send(b"q")
    assert other.last_sequence_id() == 21
    assert _stored(broker, topic) == ["7", "next", "q"]


def test_a_client_that_starts_again_from_its_journal_stores_each_item_once(broker: Broker) -> None:
    # covers DED-11
    topic = deduplicating(broker)
    for upto in (4, 7, 10):
        client = broker.client()
        producer = client.create_producer(topic, producer_name="journal", send_timeout_millis=0)
        # One life asks where to go on, the others repeat all they have. (The client takes the id 0 for none.)
        for number in range(producer.last_sequence_id() + 1 if upto == 7 else 1, upto):
            producer.send(str(number).encode(), sequence_id=number)
        client.close()
    assert _stored(broker, topic) == [str(number) for number in range(1, 10)]


def test_a_repeated_id_is_never_answered_before_its_first_copy(broker: Broker) -> None:
    # covers DED-4
    topic = deduplicating(broker)
    raw, _ = opened(broker, topic)
    for _ in range(2):
        raw.send_message(1, 7, b"x")
    first, second = raw.next_frame(30), raw.next_frame(30)
    assert first is not None
    assert second is not None
    if broker.kind != "ours" and first.type == "SEND_ERROR":
        # Apache Pulsar cannot tell while the first copy is being written, and says so before the receipt.
        assert first["error"] == "PersistenceError"
        first, second = second, answer_to(raw, 7)
    assert [is_repeated(first), is_repeated(second)] == [False, True]
    assert _stored(broker, topic) == ["x"]


def test_the_name_of_the_producer_counts_and_not_that_in_the_metadata(broker: Broker) -> None:
    # covers DED-2
    topic = deduplicating(broker)
    first, _ = opened(broker, topic, "a")
    second, _ = opened(broker, topic, "b")
    assert not is_repeated(answer_to(first, 1))
    assert not is_repeated(answer_to(second, 1, metadata={"producer_name": "a"}))
    assert is_repeated(answer_to(second, 1, metadata={"producer_name": "c"}))


def test_batches(broker: Broker) -> None:
    # covers DED-2: compared by the lowest id, kept by the highest
    topic = deduplicating(broker)
    raw, _ = opened(broker, topic)

    def send(low: int, high: int) -> Frame:
        count = high - low + 1
        values = [str(number).encode() for number in range(low, high + 1)]
        metadata = {"num_messages_in_batch": count, "highest_sequence_id": high}
        payload = batch_payload(values, low)
        return answer_to(raw, low, payload, metadata=metadata, num_messages=count, highest_sequence_id=high)

    first = send(0, 9)
    assert (is_repeated(first), first["highest_sequence_id"]) == (False, 9)
    assert is_repeated(send(0, 9))
    assert is_repeated(send(3, 9))
    assert is_repeated(answer_to(raw, 5))
    assert not is_repeated(send(10, 14))
    assert _stored(broker, topic) == [str(number) for number in range(15)]


@pytest.mark.ours_only("DED-13: Apache Pulsar drops the whole batch and answers that it is stored")
def test_a_batch_of_old_and_new_messages_is_refused(broker: Broker) -> None:
    # covers DED-13
    topic = deduplicating(broker)
    client = broker.client()
    client.create_producer(topic, producer_name="p").send(b"14", sequence_id=14)
    client.close()
    failures: list[Any] = []
    client = broker.client()
    producer = client.create_producer(
        topic,
        producer_name="p",
        batching_enabled=True,
        batching_max_messages=9,
        batching_max_publish_delay_ms=60_000,
        send_timeout_millis=0,
    )
    for number in range(12, 21):
        producer.send_async(str(number).encode(), lambda result, _id: failures.append(result), sequence_id=number)
    eventually(lambda: len(failures) == 9)
    assert set(failures) == {pulsar.Result.ChecksumError}
    for number in range(15, 18):
        producer.send_async(str(number).encode(), lambda result, _id: failures.append(result), sequence_id=number)
    producer.flush()
    assert failures[9:] == [pulsar.Result.Ok] * 3
    assert _stored(broker, topic) == ["14", "15", "16", "17"]


def test_a_chunked_message_is_judged_by_its_last_chunk(broker: Broker) -> None:
    # covers DED-8, CHK-8
    topic = deduplicating(broker)
    raw, _ = opened(broker, topic)

    def send(chunk_id: int) -> bool:
        metadata = {"uuid": "u", "chunk_id": chunk_id, "num_chunks_from_msg": 2, "total_chunk_msg_size": 2}
        return is_repeated(answer_to(raw, 3, b"c", metadata=metadata, is_chunk=True))

    assert [send(chunk_id) for chunk_id in (0, 1, 0, 1)] == [False, False, False, True]
    assert is_repeated(answer_to(raw, 3))


def test_it_is_switched_on_and_off_on_a_live_topic(broker: Broker, topic: str) -> None:
    # covers DED-1
    producer = broker.client().create_producer(topic, producer_name="p")

    def is_repeated(sequence_id: int) -> bool:
        return producer.send(b"x", sequence_id=sequence_id).ledger_id() == -1

    assert [is_repeated(3), is_repeated(3)] == [False, False]
    _switch(broker, topic, True)
    assert [is_repeated(5), is_repeated(5)] == [False, True]
    _switch(broker, topic, False)
    assert [is_repeated(5), is_repeated(5)] == [False, False]
    _switch(broker, topic, True)
    assert [is_repeated(5), is_repeated(5)] == [False, True]


def test_it_is_switched_on_for_a_namespace(broker: Broker) -> None:
    # covers DED-1
    namespace = f"public/{broker.topic().rpartition('/')[2]}"
    assert broker.rest("PUT", f"/admin/v2/namespaces/{namespace}")[0] == 204
    assert broker.rest("POST", f"/admin/v2/namespaces/{namespace}/deduplication", True)[0] == 204
    producer = broker.client().create_producer(f"persistent://{namespace}/t", producer_name="p")
    ids = [producer.send(b"x", sequence_id=number).ledger_id() for number in (1, 1, 2)]
    assert [ledger_id == -1 for ledger_id in ids] == [False, True, False]


def test_ids_are_known_after_an_unload(broker: Broker) -> None:
    # covers DED-7
    topic = deduplicating(broker)
    producer = broker.client().create_producer(topic, producer_name="p")
    producer.send(b"4", sequence_id=4)
    assert broker.rest("PUT", f"{topic_path(topic)}/unload")[0] == 204
    assert producer.send(b"4 again", sequence_id=4).ledger_id() == -1
    producer.send(b"5", sequence_id=5)
    assert _stored(broker, topic) == ["4", "5"]


def test_internal_statistics_show_what_is_known(broker: Broker) -> None:
    # covers DED-6; better than Apache Pulsar (DED-7): stored with each entry, there after a thousand of them
    topic = deduplicating(broker)
    send_all(broker.client().create_producer(topic, producer_name="p"), ["0", "1", "2"])

    def cursors() -> dict[str, Any]:
        return dict(broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]["cursors"])

    shown = cursors()
    assert set(shown) == {"keep", "pulsar.dedup"}
    known = shown["pulsar.dedup"]
    assert set(known) == set(shown["keep"])
    last = broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]["lastConfirmedEntry"]
    if broker.kind == "ours":
        assert (known["markDeletePosition"], known["properties"]) == (last, {"p": 2})
    else:
        assert (known["markDeletePosition"], known["properties"]) == (f"{last.partition(':')[0]}:-1", {})
    # It is no subscription.
    assert set(broker.stats(topic)["subscriptions"]) == {"keep"}
    assert broker.rest("GET", f"{topic_path(topic)}/subscriptions") == (200, ["keep"])
    _switch(broker, topic, False)
    eventually(lambda: set(cursors()) == {"keep"})
