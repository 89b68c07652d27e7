"""Ranges and offsets against a broker, without a JVM: what is rare on the wire, and what is gone from the broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.errors import DataLossError, UnreadableMessageError
from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ
from spark_pulsar.connector.planning.batch_read import plan_batch
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.read_limits.admission import Limits
from spark_pulsar.connector.read_limits.lookahead import LookAhead
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.connector.reading.range_reading import read_range
from spark_pulsar.model.errors import ConsumerBusy, TopicNotFound
from spark_pulsar.wire.entries.chunks import split
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata
from tests.brokers import Broker, topic_path

VALUE = Projection(("value",))
WORDS = ("false", "true")


@pytest.fixture
def client(broker: Broker) -> Iterator[PulsarClient]:
    with PulsarClient(ClientConfig(service_url=broker.service_url)) as ready:
        yield ready


def options_of(broker: Broker, topic: str, **more: str) -> Options:
    return parse_options({"service.url": broker.service_url, "topic": topic, **more})


def whole(client: PulsarClient, topic: str) -> TopicRange:
    return TopicRange(topic, EARLIEST, ReadPosition.of(client.end_positions([topic])[topic]))


def read(client: PulsarClient, options: Options, work: TopicRange) -> list[bytes | None]:
    return [value for batch in read_range(client, options, work, VALUE) for value in batch.column(0).to_pylist()]


def publish(client: PulsarClient, topic: str, entries: list[tuple[MessageMetadata, bytes]]) -> list[tuple[int, int]]:
    """Store entries as they are given; their ids."""
    ids = []
    with client.publisher(topic) as publisher:
        for metadata, payload in entries:
            publisher.send(metadata, payload, max(metadata.num_messages_in_batch, 1))
            publisher.flush()
            assert publisher.last_message_id is not None
            ids.append((publisher.last_message_id.ledger_id, publisher.last_message_id.entry_id))
    return ids


def chunks(uuid: str, payload: bytes, size: int) -> list[tuple[MessageMetadata, bytes]]:
    metadata = MessageMetadata(producer_name=uuid, sequence_id=1, publish_time=1000)
    return [(chunk, bytes(part)) for chunk, part in split(metadata, payload, size + metadata.ByteSize())]


def test_chunks_of_two_producers_interleaved(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("interleaved")
    a, b = chunks("a", b"a" * 30, 10), chunks("b", b"b" * 20, 10)
    ids = publish(client, topic, [a[0], b[0], a[1], (MessageMetadata(), b"plain"), b[1], a[2]])
    options = options_of(broker, topic)
    assert read(client, options, whole(client, topic)) == [b"plain", b"b" * 20, b"a" * 30]
    for cut in range(1, 6):
        first = TopicRange(topic, EARLIEST, ReadPosition(*ids[cut]))
        second = TopicRange(topic, ReadPosition(*ids[cut]), whole(client, topic).end)
        assert read(client, options, first) + read(client, options, second) == [b"plain", b"b" * 20, b"a" * 30]


def test_first_chunks_with_a_later_publish_time_are_found(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("clock")
    parts = chunks("a", b"a" * 30, 10)
    parts[2][0].publish_time = 2_000_000
    ids = publish(client, topic, parts)
    last = TopicRange(topic, ReadPosition(*ids[2]), whole(client, topic).end)
    assert read(client, options_of(broker, topic), last) == [b"a" * 30]


def test_an_incomplete_chunked_message_is_data_loss(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("incomplete")
    parts = chunks("a", b"a" * 30, 10)
    publish(client, topic, [parts[0], parts[2], (MessageMetadata(), b"after")])
    with pytest.raises(DataLossError, match=r"chunked message that ends at .* is incomplete"):
        read(client, options_of(broker, topic), whole(client, topic))
    assert read(client, options_of(broker, topic, failOnDataLoss="false"), whole(client, topic)) == [b"after"]


def test_a_chunked_message_that_never_ends_is_no_message(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("endless")
    publish(client, topic, [*chunks("a", b"a" * 30, 10)[:2], (MessageMetadata(), b"after")])
    assert read(client, options_of(broker, topic), whole(client, topic)) == [b"after"]


def test_an_encrypted_entry_is_an_error_that_names_it(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("encrypted")
    secret = MessageMetadata(encryption_algo="x", encryption_param=b"0" * 12)
    secret.encryption_keys.add(key="k", value=b"v")
    [at] = publish(client, topic, [(secret, b"???")])
    with pytest.raises(UnreadableMessageError, match=rf"{topic}: entry {at[0]}:{at[1]} cannot be decrypted"):
        read(client, options_of(broker, topic), whole(client, topic))


def test_messages_that_were_compacted_out_keep_their_index(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("compacted")
    payload = b""
    for index in range(3):
        single = SingleMessageMetadata(payload_size=1, compacted_out=index == 1)
        payload += len(single.SerializeToString()).to_bytes(4, "big") + single.SerializeToString() + b"%d" % index
    [at] = publish(client, topic, [(MessageMetadata(num_messages_in_batch=3), payload)])
    assert read(client, options_of(broker, topic), whole(client, topic)) == [b"0", b"2"]
    rest = TopicRange(topic, ReadPosition(*at, 2), ReadPosition(at[0], at[1] + 1))
    assert read(client, options_of(broker, topic), rest) == [b"2"]


def test_an_end_that_does_not_exist_is_data_loss(broker: Broker, client: PulsarClient) -> None:
    # covers OFFSET-8
    topic = broker.topic("end")
    [at] = publish(client, topic, [(MessageMetadata(), b"only")])
    beyond = TopicRange(topic, EARLIEST, ReadPosition(at[0] + 100, 5))
    with pytest.raises(DataLossError, match="Set failOnDataLoss to false"):
        read(client, options_of(broker, topic), beyond)
    assert read(client, options_of(broker, topic, failOnDataLoss="false"), beyond) == [b"only"]


def test_a_range_whose_ledger_is_gone_is_data_loss(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("gone")
    publish(client, topic, [(MessageMetadata(), b"new")])
    old = TopicRange(topic, ReadPosition(0, 5), ReadPosition(0, 9))
    with pytest.raises(DataLossError, match="removed from the broker before it was read"):
        read(client, options_of(broker, topic), old)
    assert read(client, options_of(broker, topic, failOnDataLoss="false"), old) == []


def test_looking_ahead_counts_exactly_and_goes_on(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("ahead")

    def batch(count: int) -> tuple[MessageMetadata, bytes]:
        single = SingleMessageMetadata(payload_size=1).SerializeToString()
        return MessageMetadata(num_messages_in_batch=count), (len(single).to_bytes(4, "big") + single + b"x") * count

    plain = (MessageMetadata(), b"x")
    ids = publish(client, topic, [plain, batch(5), *chunks("a", b"a" * 30, 10), batch(3), plain])
    end = {topic: whole(client, topic).end}
    ahead = LookAhead(client, 10_000)
    at: dict[str, Any] = {topic: EARLIEST}
    seen = []
    while at != end:
        at = ahead.gathering(end).end_within(at, Limits(3))
        seen.append(at[topic])
    ahead.close()
    assert seen == [
        ReadPosition(*ids[1], 2),
        ReadPosition(ids[1][0], ids[1][1] + 1),
        ReadPosition(*ids[5], 2),
        end[topic],
    ]
    assert len(read(client, options_of(broker, topic), whole(client, topic))) == 11


def test_a_frozen_stream_ends_where_it_was_frozen(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("frozen")
    publish(client, topic, [(MessageMetadata(), b"1")])
    driver = OffsetPlanner(client, options_of(broker, topic, startingOffsets="latest"))
    driver.freeze()
    publish(client, topic, [(MessageMetadata(), b"2")])
    initial = driver.initial()
    end = driver.latest(initial, None)
    assert driver.ranges(initial, end) == []
    assert driver.latest(SourceOffset.from_json(end.to_json()), None).positions == end.positions


def test_a_frozen_stream_tells_a_topic_that_vanished_from_one_that_never_was(
    broker: Broker, client: PulsarClient
) -> None:
    kept, gone = broker.topic("frozen-kept"), broker.topic("frozen-gone")
    publish(client, kept, [(MessageMetadata(), b"1")])
    base = {"service.url": broker.service_url, "topics": f"{kept},{gone}", "startingOffsets": "earliest"}
    start = SourceOffset({kept: EARLIEST, gone: ReadPosition(1, 1)})
    strict = OffsetPlanner(client, parse_options(base))
    strict.freeze()
    with pytest.raises(DataLossError, match=f"{gone} no longer exists"):
        strict.latest(start, None)
    with pytest.raises(TopicNotFound):
        strict.initial()
    driver = OffsetPlanner(client, parse_options(base | {"failOnDataLoss": "false"}))
    driver.freeze()
    end = driver.latest(start, None)
    assert set(end.positions) == {kept}
    publish(client, kept, [(MessageMetadata(), b"2")])
    assert driver.latest(end, None) is end


def delete(broker: Broker, topic: str) -> None:
    status, answer = broker.rest("DELETE", f"{topic_path(topic)}?force=true")
    assert status == 204, (status, answer)


def test_a_topic_deleted_before_it_is_counted(broker: Broker, client: PulsarClient) -> None:
    kept, gone = broker.topic("counted"), broker.topic("deleted")
    base = {"service.url": broker.service_url, "topics": f"{kept},{gone}", "startingOffsets": "earliest"}
    for topic in (kept, gone):
        publish(client, topic, [(MessageMetadata(), b"%d" % number) for number in range(4)])
    tolerant, strict = (OffsetPlanner(client, parse_options(base | {"failOnDataLoss": word})) for word in WORDS)
    for driver in (tolerant, strict):
        driver.initial()
        driver.freeze()
    delete(broker, gone)
    with pytest.raises(DataLossError, match=f"{gone} no longer exists.* Set failOnDataLoss to false"):
        strict.latest(strict.initial(), 3)
    end = tolerant.initial()
    read_values = []
    for _ in range(2):
        start, end = end, tolerant.latest(end, 3)
        ranges = tolerant.ranges(start, SourceOffset.from_json(end.to_json()))
        read_values += [value for work in ranges for value in read(client, options_of(broker, kept), work)]
        assert set(end.positions) == {kept}
    assert read_values == [b"0", b"1", b"2", b"3"]
    assert tolerant.latest(end, 3) is end


def test_a_topic_deleted_while_it_is_read(
    broker: Broker, client: PulsarClient, caplog: pytest.LogCaptureFixture
) -> None:
    for fail_on_data_loss in WORDS:
        topic = broker.topic("deleted")
        publish(client, topic, [(MessageMetadata(), b"x" * 100) for _ in range(20)])
        work = whole(client, topic)
        beyond = TopicRange(topic, work.start, ReadPosition(work.end.ledger_id + 100, 0))
        options = options_of(broker, topic, failOnDataLoss=fail_on_data_loss)
        rows = read_range(client, options, beyond, VALUE)
        on_the_way = 20 - next(rows).num_rows
        delete(broker, topic)
        lost = f"{topic} cannot be read from .*: .*(not found|does not exist)"
        # In the midst of it, and before it begins.
        for again, most in ((rows, on_the_way), (read_range(client, options, work, VALUE), 0)):
            if fail_on_data_loss == "true":
                with pytest.raises(DataLossError, match=f"{lost}.* Set failOnDataLoss to false"):
                    list(again)
            else:
                caplog.clear()
                assert sum(batch.num_rows for batch in again) <= most < 20
                assert [record.levelname for record in caplog.records if re.search(lost, record.getMessage())] == [
                    "WARNING"
                ]


def test_unchanged_offsets_are_the_same_text(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("unchanged")
    publish(client, topic, [(MessageMetadata(), b"1")])
    driver = OffsetPlanner(client, options_of(broker, topic, startingOffsets="earliest"))
    end = driver.latest(driver.initial(), None)
    assert driver.latest(end, None) is end
    assert driver.report() is not None


def test_a_vanished_topic_is_data_loss_unless_told_otherwise(broker: Broker, client: PulsarClient) -> None:
    topic, gone = broker.topic("kept"), broker.topic("never")
    publish(client, topic, [(MessageMetadata(), b"1")])
    start = SourceOffset({topic: EARLIEST, gone: ReadPosition(1, 1)})
    pattern = topic.rsplit("/", 1)[1]
    base = {"service.url": broker.service_url, "topicsPattern": pattern}
    with pytest.raises(DataLossError, match=f"{gone} no longer exists"):
        OffsetPlanner(client, parse_options(base)).latest(start, None)
    end = OffsetPlanner(client, parse_options(base | {"failOnDataLoss": "false"})).latest(start, None)
    assert set(end.positions) == {topic}


def test_a_loss_that_was_accepted_stays_accepted(broker: Broker, client: PulsarClient) -> None:
    topic, gone = broker.topic("stays"), broker.topic("returns")
    publish(client, topic, [(MessageMetadata(), b"1")])
    options = parse_options({"service.url": broker.service_url, "topics": f"{topic},{gone}", "failOnDataLoss": "false"})
    driver = OffsetPlanner(client, options)
    end = driver.latest(SourceOffset({topic: EARLIEST, gone: ReadPosition(1, 1)}), None)
    assert driver.latest(end, None) is end
    assert OffsetPlanner(client, options).latest(end, None) is end
    [at] = publish(client, gone, [(MessageMetadata(), b"2")])
    [work] = driver.ranges(end, driver.latest(end, None))
    assert (work.topic, work.start) == (gone, ReadPosition(*at))
    with pytest.raises(TopicNotFound):
        OffsetPlanner(client, options_of(broker, broker.topic("none"), failOnDataLoss="false")).initial()


def test_a_named_subscription_holds_a_new_topic_before_it_is_read(broker: Broker, client: PulsarClient) -> None:
    topics = [broker.topic("held") for _ in range(3)]
    pattern = "|".join(topic.rsplit("/", 1)[1] for topic in topics)
    options = parse_options(
        {"service.url": broker.service_url, "topicsPattern": pattern, "subscriptionName": "held"}
        | {"startingOffsets": "earliest"}
    )
    publish(client, topics[0], [(MessageMetadata(), b"1")])
    driver = OffsetPlanner(client, options)
    end = driver.latest(driver.initial(), None)
    for topic in topics[1:]:  # found by the same run of the query, and by the next one
        publish(client, topic, [(MessageMetadata(), b"2")])
        end = driver.latest(end, None)
        _, subscriptions = broker.rest("GET", f"{topic_path(topic)}/subscriptions")
        assert "held" in subscriptions
        driver = OffsetPlanner(client, options)


def test_a_subscription_that_others_use_is_an_error_that_names_the_option(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("busy")
    publish(client, topic, [(MessageMetadata(), b"1")])
    theirs = broker.client().subscribe(topic, "theirs", pulsar.ConsumerType.Shared)
    driver = OffsetPlanner(client, options_of(broker, topic, subscriptionName="theirs"))
    with pytest.raises(ConsumerBusy, match="subscriptionName = 'theirs' is in use by others"):
        driver.initial()
    theirs.close()
    driver.initial()


def test_a_partition_that_cannot_be_acknowledged_holds_up_no_other(broker: Broker, client: PulsarClient) -> None:
    topics = [broker.topic("mirrored") for _ in range(3)]
    for topic in topics:
        publish(client, topic, [(MessageMetadata(), b"1")])
    base = {"service.url": broker.service_url, "topics": ",".join(topics), "failOnDataLoss": "false"}
    driver = OffsetPlanner(client, parse_options(base | {"startingOffsets": "earliest", "subscriptionName": "mirror"}))
    end = driver.latest(driver.initial(), None)
    taken = broker.client().subscribe(topics[0], "mirror")
    delete(broker, topics[1])
    driver.commit(SourceOffset(end.positions))
    [at] = client.cursor_positions([topics[2]], "mirror").values()
    assert ReadPosition.of(at) == end.positions[topics[2]]
    taken.close()


def test_an_emptied_topic_is_no_loss(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("emptied")
    client.publisher(topic).close()
    read_before = SourceOffset({topic: ReadPosition(3, 7)})
    assert OffsetPlanner(client, options_of(broker, topic)).latest(read_before, None) is read_before


def test_a_read_between_two_publish_times(broker: Broker, client: PulsarClient) -> None:
    topic, empty = broker.topic("times"), broker.topic("times-empty")
    client.publisher(empty).close()
    publish(client, topic, [(MessageMetadata(publish_time=1_000 * number), b"%d" % number) for number in range(1, 6)])

    def between(**times: str) -> list[bytes | None]:
        options = parse_options({"service.url": broker.service_url, "topics": f"{topic},{empty}", **times})
        ranges = plan_batch(client, options.for_read(BATCH_READ))
        return [value for work in ranges for value in read(client, options, work)]

    assert between(startingTime="2000", endingTime="4000") == [b"2", b"3"]
    assert between(startingTime="2001") == [b"3", b"4", b"5"]
    assert between(endingTime="2001") == [b"1", b"2"]
    assert between(startingTime="0", endingTime="1000") == []
    assert between(startingTime="6000") == []
    driver = OffsetPlanner(client, options_of(broker, topic, startingTime="4500"))
    [work] = driver.ranges(driver.initial(), driver.latest(driver.initial(), None))
    assert read(client, options_of(broker, topic), work) == [b"5"]


def test_a_start_behind_the_last_message_of_an_entry_is_the_next_entry(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("index")
    [first, _] = publish(client, topic, [(MessageMetadata(), b"1"), (MessageMetadata(), b"2")])
    text = f'{{"{topic}": "{first[0]}:{first[1]}:{2**31 - 1}"}}'
    options = options_of(broker, topic, startingOffsets=text)
    assert [value for work in plan_batch(client, options) for value in read(client, options, work)] == [b"2"]


def test_a_batch_read_may_start_after_the_end(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("after-end")
    [at] = publish(client, topic, [(MessageMetadata(), b"1")])
    text = f'{{"{topic}": "{at[0]}:{at[1] + 5}"}}'
    assert plan_batch(client, options_of(broker, topic, startingOffsets=text)) == []
