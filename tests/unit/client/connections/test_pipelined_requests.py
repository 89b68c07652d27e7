"""Many topics at once, idle readers, cursors: pipelined requests that no real broker shows in detail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.pending import PendingReply
from spark_pulsar.client.connections.pipelined_requests import PipelinedRequest, run_all
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectionLost, OperationTimeout, UnexpectedReply
from spark_pulsar.model.errors import (
    AuthenticationError,
    ConsumerBusy,
    MetadataError,
    NotAllowed,
    ProducerFenced,
    PulsarError,
    TopicNotFound,
)
from spark_pulsar.model.limits import MAX_PARTITIONS
from spark_pulsar.model.positions.ids import EARLIEST_ID, MessageId, signed
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.protocol.frames import command_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandAck, CommandSubscribe
from tests.unit.client.peer import Caller, Peer, message

MakeClient = Callable[..., PulsarClient]
TOPIC = "persistent://public/default/t"


def test_questions_about_many_topics_go_out_together(peer: Peer, client_of: MakeClient) -> None:
    topics = [f"{TOPIC}-partition-{i}" for i in range(50)]
    held: list[tuple[Caller, BaseCommand]] = []

    def answer_when_all_are_there(caller: Caller, command: BaseCommand, _: bytes) -> None:
        held.append((caller, command))
        if len(held) == len(topics):
            for one, request in reversed(held):
                one.send(commands.success(request.subscribe.request_id))

    peer.handlers[BaseCommand.SUBSCRIBE] = answer_when_all_are_there
    peer.last = MessageId(1, 2)
    answers = client_of(peer.url).last_message_ids(topics)
    assert list(answers) == topics
    assert answers[topics[7]] == MessageId(1, 2, 7)


def test_however_many_topics_have_one_time_out_together() -> None:
    topics = [f"{TOPIC}-{index}" for index in range(1_000)]
    begun: list[str] = []

    def deadline_of(topic: str) -> Deadline:
        assert not begun
        return Deadline(1_000, f"asking for {topic}", "nowhere")

    def make(topic: str) -> PipelinedRequest[int]:
        begun.append(topic)
        return len(topic)
        yield  # an answer without a question

    assert list(run_all(topics, make, deadline_of)) == begun == topics


def test_partitions_of_many_topics_are_asked_for_together(peer: Peer, client_of: MakeClient) -> None:
    waiting: list[tuple[Caller, BaseCommand]] = []

    def answer_all_at_the_last(caller: Caller, command: BaseCommand, _: bytes) -> None:
        waiting.append((caller, command))
        if len(waiting) < 3:
            return
        for one, asked in reversed(waiting):
            request = asked.partitionMetadata
            if request.topic.endswith("/missing"):
                one.refuse(asked, TopicNotFound("never heard of it"))
            else:
                one.send(commands.partition_metadata(request.request_id, 2 if request.topic.endswith("/two") else 0))

    peer.handlers[BaseCommand.PARTITIONED_METADATA] = answer_all_at_the_last
    found = client_of(peer.url).partitions_of_each(["plain", "two", "missing"])
    assert list(found) == ["plain", "two", "missing"]
    assert found["plain"] == ["persistent://public/default/plain"]
    assert found["two"] == [f"persistent://public/default/two-partition-{index}" for index in range(2)]
    assert "never heard of it" in str(found["missing"])


def test_asking_again_uses_the_reader_that_is_there(peer: Peer, client: PulsarClient) -> None:
    for i in range(3):
        peer.last = MessageId(1, i)
        assert client.last_message_id("t") == MessageId(1, i)
    assert len(peer.of(BaseCommand.SUBSCRIBE)) == 1
    subscribe = peer.of(BaseCommand.SUBSCRIBE)[0].subscribe
    assert not subscribe.durable
    assert not subscribe.force_topic_creation
    assert not peer.of(BaseCommand.FLOW)


def test_a_reader_that_the_broker_closed_is_replaced(peer: Peer, client: PulsarClient) -> None:
    client.last_message_id("t")
    consumer_id = peer.of(BaseCommand.SUBSCRIBE)[0].subscribe.consumer_id
    peer.callers[0].send(commands.close_consumer(consumer_id))
    peer.last = MessageId(5, 5)
    # Whether the news comes before or after the question, the broker no longer knows the consumer.
    ask = peer.handlers[BaseCommand.GET_LAST_MESSAGE_ID]
    peer.handlers[BaseCommand.GET_LAST_MESSAGE_ID] = lambda caller, command, payload: (
        caller.refuse(command, MetadataError("Consumer not found"))
        if command.getLastMessageId.consumer_id == consumer_id
        else ask(caller, command, payload)
    )
    assert client.last_message_id("t") == MessageId(5, 5)


def test_one_missing_topic_among_many(peer: Peer, client_of: MakeClient) -> None:
    peer.handlers[BaseCommand.SUBSCRIBE] = lambda caller, command, _: (
        caller.refuse(command, TopicNotFound("gone"))
        if command.subscribe.topic.endswith("-b")
        else caller.send(commands.success(command.subscribe.request_id))
    )
    with pytest.raises(TopicNotFound, match="gone"):
        client_of(peer.url).last_message_ids([f"{TOPIC}-{name}" for name in "abc"])


def test_a_time_out_names_its_topic(peer: Peer, client_of: MakeClient) -> None:
    del peer.handlers[BaseCommand.GET_LAST_MESSAGE_ID]
    client = client_of(peer.url, operation_timeout_ms=500)
    with pytest.raises(OperationTimeout, match=f"500 ms requesting the last message id of {TOPIC} at {peer.url}"):
        client.last_message_ids([TOPIC])
    assert peer.wait_for(BaseCommand.CLOSE_CONSUMER)  # nothing stays behind


@pytest.mark.parametrize("kind", [BaseCommand.SUBSCRIBE, BaseCommand.GET_LAST_MESSAGE_ID])
def test_a_question_that_is_lost_is_asked_again(kind: int, peer: Peer, client_of: MakeClient) -> None:
    peer.lose(kind)
    peer.last = MessageId(5, 5)
    assert client_of(peer.url, operation_timeout_ms=2_000).last_message_ids([TOPIC]) == {TOPIC: MessageId(5, 5)}
    first, second = peer.of(BaseCommand.SUBSCRIBE)
    assert first.subscribe.consumer_id != second.subscribe.consumer_id
    # The broker may have attached the first one after all.
    closed = [command.close_consumer.consumer_id for command in peer.wait_for(BaseCommand.CLOSE_CONSUMER)]
    assert closed == [first.subscribe.consumer_id]


def _acked(peer: Peer) -> tuple[int, int, list[int]]:
    ack = peer.of(BaseCommand.ACK)[-1].ack
    assert ack.ack_type == CommandAck.Cumulative
    (one,) = ack.message_id
    return signed(one.ledgerId), signed(one.entryId), list(one.ack_set)


def test_moving_a_cursor_acknowledges_cumulatively_and_takes_nothing(peer: Peer, client: PulsarClient) -> None:
    peer.answer(BaseCommand.ACK, lambda asked: commands.ack_response(asked.consumer_id, asked.request_id))
    client.advance_cursors({"t": MessageId(3, 5)}, "s")
    assert _acked(peer) == (3, 4, [])
    client.advance_cursors({"t": MessageId(3, 0, -1, 0)}, "s")
    assert _acked(peer) == (3, -1, [])
    client.advance_cursors({"t": MessageId(-1, -1)}, "s")
    assert len(peer.of(BaseCommand.ACK)) == 2
    subscribe = peer.of(BaseCommand.SUBSCRIBE)[0].subscribe
    assert (subscribe.subscription, subscribe.durable) == ("s", True)
    assert subscribe.initialPosition == CommandSubscribe.Earliest
    assert not peer.of(BaseCommand.FLOW)
    assert not peer.of(BaseCommand.SEEK)
    assert len(peer.of(BaseCommand.CLOSE_CONSUMER)) == 3


@pytest.mark.parametrize(("batch", "ack_set"), [(10, [0b1111111000]), (70, [-8, 63]), (3, []), (None, [])])
def test_a_position_inside_a_batch_needs_the_size_of_the_batch(
    batch: int | None, ack_set: list[int], peer: Peer, client: PulsarClient
) -> None:
    # The bitmap says which messages are left; an entry that is gone, or no batch, is acknowledged whole.
    fields = {} if batch is None else {"num_messages_in_batch": batch}
    peer.last = MessageId(3, 5)
    peer.answer(BaseCommand.FLOW, lambda asked: message(asked.consumer_id, MessageId(3, 5), **fields))
    peer.answer(BaseCommand.ACK, lambda asked: commands.ack_response(asked.consumer_id, asked.request_id))
    client.advance_cursors({"t": MessageId(3, 5, -1, 3)}, "s")
    assert _acked(peer) == (3, 5, ack_set)
    peer.last = MessageId(-1, -1)
    client.advance_cursors({"t": MessageId(3, 5, -1, 3)}, "s")
    assert _acked(peer) == (3, 5, [])


def test_an_acknowledgement_is_repeated_when_its_consumer_is_closed(peer: Peer, client_of: MakeClient) -> None:
    def close_first(caller: Caller, command: BaseCommand, _: bytes) -> None:
        ack = command.ack
        if len(peer.of(BaseCommand.ACK)) == 1:
            caller.send(commands.close_consumer(ack.consumer_id))  # a broker never answers this ACK any more
        else:
            caller.send(commands.ack_response(ack.consumer_id, ack.request_id))

    peer.handlers[BaseCommand.ACK] = close_first
    client_of(peer.url).advance_cursors({"t": MessageId(3, 5)}, "s")
    assert len(peer.of(BaseCommand.ACK)) == 2


def test_a_busy_subscription_is_waited_for_but_not_for_long(peer: Peer, client_of: MakeClient) -> None:
    busy = [ConsumerBusy("Exclusive consumer is already connected")] * 2
    peer.handlers[BaseCommand.SUBSCRIBE] = lambda caller, command, _: (
        caller.refuse(command, busy.pop()) if busy else caller.send(commands.success(command.subscribe.request_id))
    )
    client = client_of(peer.url, operation_timeout_ms=1_000)
    client.ensure_subscription(["t"], "s")
    busy += [ConsumerBusy("Exclusive consumer is already connected")] * 1000
    with pytest.raises(ConsumerBusy, match="already connected"):
        client.ensure_subscription(["t"], "s")


def test_an_answer_of_the_wrong_kind_is_no_answer(peer: Peer, client: PulsarClient) -> None:
    for kind in (BaseCommand.GET_LAST_MESSAGE_ID, BaseCommand.PARTITIONED_METADATA):
        peer.handlers[kind] = lambda caller, command, _: caller.send(
            commands.success(commands.request_id_of(command) or 0)
        )
    with pytest.raises(UnexpectedReply, match="answered a request with SUCCESS"):
        client.last_message_id("t")
    with pytest.raises(UnexpectedReply, match="answered a request with SUCCESS"):
        client.partition_count("t")


def test_a_number_of_partitions_is_believed_up_to_a_bound(peer: Peer, client: PulsarClient) -> None:
    answer = MAX_PARTITIONS
    peer.answer(BaseCommand.PARTITIONED_METADATA, lambda asked: commands.partition_metadata(asked.request_id, answer))
    names = client.partitions_of("t")
    assert (len(names), names[-1]) == (MAX_PARTITIONS, f"{TOPIC}-partition-{MAX_PARTITIONS - 1}")
    for answer in (MAX_PARTITIONS + 1, 2**32 - 1):
        with pytest.raises(UnexpectedReply, match=f"{TOPIC} has {answer} partitions"):
            client.partitions_of("t")


@pytest.mark.parametrize(("number", "error"), [(25, ProducerFenced), (99, OperationTimeout)])
def test_an_acknowledgement_that_is_refused_for_any_reason_is_refused(
    number: int, error: type[PulsarError], peer: Peer, client_of: MakeClient
) -> None:
    def answer(caller: Caller, command: BaseCommand, _: bytes) -> None:
        refusal = commands.ack_response(command.ack.consumer_id, command.ack.request_id, NotAllowed("why"))
        caller.send(command_frame(refusal).replace(bytes([0x20, NotAllowed.code]), bytes([0x20, number])))

    peer.handlers[BaseCommand.ACK] = answer
    client = client_of(peer.url, operation_timeout_ms=500)
    with pytest.raises(error, match="why" if number == 25 else "error code 99: why"):
        client.advance_cursors({"t": MessageId(3, 5)}, "s")


def test_a_kept_probe_is_closed_when_another_topic_ends_the_question(peer: Peer, client: PulsarClient) -> None:
    here, gone = "persistent://public/default/here", "persistent://public/default/gone"
    peer.last = MessageId(1, 9)
    friendly = peer.handlers[BaseCommand.LOOKUP]

    def looked_up(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if command.lookupTopic.topic == gone:
            caller.refuse(command, TopicNotFound("no such namespace"))
        else:
            friendly(caller, command, payload)

    peer.handlers[BaseCommand.LOOKUP] = looked_up
    client.end_positions([here])
    with pytest.raises(TopicNotFound):
        client.end_positions([gone, here])
    [kept] = [one.subscribe for one in peer.of(BaseCommand.SUBSCRIBE) if one.subscribe.topic == here]
    [closed] = peer.wait_for(BaseCommand.CLOSE_CONSUMER)
    assert closed.close_consumer.consumer_id == kept.consumer_id


def _refuse_all_but_shared(peer: Peer) -> None:
    """Refuses types as Apache Pulsar does, which for a moment refuses the id of a refused consumer, too."""
    refused: set[int] = set()

    def subscribe(caller: Caller, command: BaseCommand, _: bytes) -> None:
        asked: Any = command.subscribe
        if asked.consumer_id in refused:
            caller.refuse(command, NotAllowed("Consumer that failed is already present on the connection"))
        elif asked.subType != CommandSubscribe.Shared:
            refused.add(asked.consumer_id)
            caller.refuse(command, NotAllowed("Topic[{t}] doesn't support Exclusive sub type!"))
        else:
            caller.send(commands.success(asked.request_id))

    peer.handlers[BaseCommand.SUBSCRIBE] = subscribe


def test_a_refused_consumer_is_not_in_the_way_of_the_next(peer: Peer, client_of: MakeClient) -> None:
    # covers READ-41
    _refuse_all_but_shared(peer)
    peer.last = MessageId(3, 4)
    assert client_of(peer.url).end_positions([TOPIC])[TOPIC] == MessageId(3, 5)
    with client_of(peer.url).fetch(TOPIC, EARLIEST_ID, None) as fetch:
        assert fetch.next_block(100) is None
    ids = [command.subscribe.consumer_id for command in peer.of(BaseCommand.SUBSCRIBE)]
    assert len(set(ids)) == len(ids) >= 6


# ---- a reply


def test_what_is_said_first_stays() -> None:
    # A broker refuses a handshake and closes: the caller may look only after both were noticed.
    refused = PendingReply()
    refused.fail(AuthenticationError("Failed to authenticate"))
    refused.fail(ConnectionLost("closed the connection"))
    refused.resolve(commands.pong())
    with pytest.raises(AuthenticationError, match="Failed to authenticate"):
        refused.result(Deadline(1000, "connecting", "peer"))


def test_an_answer_outlives_its_connection() -> None:
    answered = PendingReply()
    pong = commands.pong()
    answered.resolve(pong)
    answered.fail(ConnectionLost("closed the connection"))
    assert answered.result(Deadline(1000, "connecting", "peer")) is pong
