"""A publisher against a peer that loses, refuses and delays."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from spark_pulsar.client import deadlines
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.client.errors import ClientClosed, MessageTooLarge, OperationTimeout
from spark_pulsar.client.publishing import publisher as publishing
from spark_pulsar.client.publishing.publisher import Publisher
from spark_pulsar.model.errors import (
    NotAllowed,
    PersistenceError,
    ProducerBusy,
    ServiceNotReady,
    TopicNotFound,
    TopicTerminated,
)
from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire.entries.entry_bytes import parse_entry
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata
from tests import entry_commands
from tests.eventually import eventually
from tests.unit.client.peer import Caller, Handler, Peer

MakeClient = Callable[..., PulsarClient]
TOPIC = "persistent://public/default/t"


def _receipt(caller: Caller, command: BaseCommand, _: bytes) -> None:
    send = command.send
    caller.send(entry_commands.send_receipt(send.producer_id, send.sequence_id, Position(9, send.sequence_id)))


def _send(publisher: Publisher, count: int = 1) -> None:
    for _ in range(count):
        publisher.send(MessageMetadata(), b"value")


def _sequence_ids(peer: Peer, connection: int | None = None) -> list[int]:
    return [
        command.send.sequence_id
        for number, command, _ in list(peer.seen)
        if command.type == BaseCommand.SEND and connection in (None, number)
    ]


def test_what_is_sent(peer: Peer, client_of: MakeClient) -> None:
    peer.handlers[BaseCommand.SEND] = _receipt
    peer.answer(
        BaseCommand.PRODUCER, lambda asked: commands.producer_success(asked.request_id, "made-up", last_sequence_id=41)
    )
    with client_of(peer.url).publisher(TOPIC) as publisher:
        assert publisher.producer_name == "made-up"
        assert publisher.next_sequence_id == 42
        publisher.send(MessageMetadata(partition_key="k"), b"one")
        publisher.send(MessageMetadata(num_messages_in_batch=3, highest_sequence_id=45, publish_time=7), b"three", 3)
        assert publisher.next_sequence_id == 46
        publisher.flush()
        assert publisher.pending == 0
        assert publisher.last_message_id == MessageId(9, 43)
    producer = peer.of(BaseCommand.PRODUCER)[0].producer
    assert not producer.HasField("producer_name")
    assert not producer.user_provided_producer_name
    (_, first, one), (_, second, three) = [item for item in peer.seen if item[1].type == BaseCommand.SEND]
    assert (first.send.sequence_id, first.send.num_messages) == (42, 1)
    assert (second.send.sequence_id, second.send.num_messages, second.send.highest_sequence_id) == (43, 3, 45)
    entry = parse_entry(one)
    assert (entry.metadata.producer_name, entry.metadata.sequence_id) == ("made-up", 42)
    assert entry.metadata.publish_time > 1_700_000_000_000
    assert bytes(entry.payload) == b"one"
    assert parse_entry(three).metadata.publish_time == 7
    assert peer.of(BaseCommand.CLOSE_PRODUCER)


def test_what_has_no_receipt_is_sent_again_in_order(peer: Peer, client_of: MakeClient) -> None:
    def cut_at_five(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if caller.number > 0 or command.send.sequence_id < 2:
            _receipt(caller, command, payload)
        elif command.send.sequence_id == 5:
            caller.close()

    peer.handlers[BaseCommand.SEND] = cut_at_five
    with client_of(peer.url).publisher(TOPIC) as publisher:
        _send(publisher, 6)
        publisher.flush()
        _send(publisher, 1)
    assert _sequence_ids(peer, 0) == [0, 1, 2, 3, 4, 5]
    again = _sequence_ids(peer, 1)
    assert again[-1] == 6
    assert again == list(range(again[0], 7))
    assert again[0] <= 2
    first, second = peer.of(BaseCommand.PRODUCER)
    assert (second.producer.producer_name, second.producer.epoch) == ("peer-0", first.producer.epoch + 1)
    assert not second.producer.user_provided_producer_name


@pytest.mark.parametrize("breaking", ["send error", "close producer", "receipts out of order"])
def test_a_producer_broken_on_a_living_connection_is_made_again(
    breaking: str, peer: Peer, client_of: MakeClient
) -> None:
    def break_first(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        send = command.send
        if len(peer.of(BaseCommand.PRODUCER)) > 1:
            _receipt(caller, command, payload)
        elif send.sequence_id == 1:
            if breaking == "send error":
                caller.send(commands.send_error(send.producer_id, 0, PersistenceError("disk")))
            elif breaking == "close producer":
                caller.send(commands.close_producer(send.producer_id))
            else:
                caller.send(entry_commands.send_receipt(send.producer_id, 1, Position(9, 1)))

    peer.handlers[BaseCommand.SEND] = break_first
    with client_of(peer.url).publisher(TOPIC, name="mine") as publisher:
        _send(publisher, 2)
        publisher.flush()
        assert publisher.last_message_id == MessageId(9, 1)
    assert _sequence_ids(peer) == [0, 1, 0, 1]
    assert [command.producer.producer_name for command in peer.of(BaseCommand.PRODUCER)] == ["mine", "mine"]
    assert len(peer.callers) == 1


@pytest.mark.parametrize("error", [TopicTerminated("no more"), NotAllowed("forbidden")])
def test_a_final_refusal_is_raised_and_stays(error: Exception, peer: Peer, client_of: MakeClient) -> None:
    peer.refuse(BaseCommand.SEND, error)  # type: ignore[arg-type]
    publisher = client_of(peer.url).publisher(TOPIC)
    _send(publisher)
    for _ in range(2):
        with pytest.raises(type(error), match=str(error)):
            publisher.flush()
    with pytest.raises(type(error)):
        _send(publisher)
    with pytest.raises(type(error)):
        publisher.close()


def test_an_entry_that_is_refused_for_ever_ends_in_a_time_out(peer: Peer, client_of: MakeClient) -> None:
    peer.refuse(BaseCommand.SEND, PersistenceError("disk full"))
    publisher = client_of(peer.url, operation_timeout_ms=500).publisher(TOPIC)
    _send(publisher)
    with pytest.raises(OperationTimeout, match="disk full"):
        publisher.flush()
    with pytest.raises(OperationTimeout):
        _send(publisher)
    publisher.abort()


def test_a_receipt_that_never_comes(peer: Peer, client_of: MakeClient) -> None:
    publisher = client_of(peer.url, operation_timeout_ms=500).publisher(TOPIC)
    _send(publisher, 2)
    with pytest.raises(
        OperationTimeout, match=rf"500 ms waiting for the receipt of sequence id 0 on {TOPIC} \(2 entries"
    ):
        publisher.flush()
    publisher.abort()
    publisher = client_of(peer.url).publisher(TOPIC)
    _send(publisher)
    with pytest.raises(OperationTimeout, match="50 ms waiting"):
        publisher.flush(timeout_ms=50)
    publisher.abort()


def test_a_publisher_may_have_a_patience_of_its_own(peer: Peer, client_of: MakeClient) -> None:
    client = client_of(peer.url, operation_timeout_ms=60_000)
    publisher = client.publisher(TOPIC, receipt_timeout_ms=150)
    _send(publisher)
    with pytest.raises(OperationTimeout, match="after 150 ms waiting for the receipt of sequence id 0"):
        publisher.flush()
    publisher.abort()

    def refuse_all_but_the_first(caller: Caller, command: BaseCommand, _: bytes) -> None:
        if len(peer.of(BaseCommand.PRODUCER)) > 2:
            caller.refuse(command, ServiceNotReady("not now"))
        else:
            caller.send(commands.producer_success(command.producer.request_id, "peer-0"))

    peer.handlers[BaseCommand.PRODUCER] = refuse_all_but_the_first
    peer.answer(BaseCommand.SEND, lambda asked: commands.close_producer(asked.producer_id))
    publisher = client.publisher(TOPIC, receipt_timeout_ms=150)
    _send(publisher)
    with pytest.raises(OperationTimeout, match="after 150 ms creating a producer"):
        publisher.flush()
    publisher.abort()


def test_the_window_is_bounded(peer: Peer, client_of: MakeClient) -> None:
    waiting: list[tuple[Caller, BaseCommand]] = []
    peer.handlers[BaseCommand.SEND] = lambda caller, command, _: waiting.append((caller, command))
    client = client_of(peer.url, operation_timeout_ms=500)
    for limits in ({"max_pending_entries": 2}, {"max_pending_bytes": 70}):
        waiting.clear()
        publisher = client.publisher(TOPIC, **limits)
        _send(publisher, 2)
        with pytest.raises(OperationTimeout):
            _send(publisher)
        eventually(lambda: len(waiting) == 2)
        for caller, command in waiting:
            _receipt(caller, command, b"")
        eventually(lambda one=publisher: one.pending == 0)
        _send(publisher)
        eventually(lambda: len(waiting) == 3)
        publisher.abort()


def test_an_entry_too_large_is_refused_here(peer: Peer, client_of: MakeClient) -> None:
    peer.answer(BaseCommand.CONNECT, lambda _: commands.connected(19, "peer", 1000))
    peer.handlers[BaseCommand.SEND] = _receipt
    with client_of(peer.url).publisher(TOPIC) as publisher:
        with pytest.raises(MessageTooLarge, match=f"{TOPIC}: an entry of .* maximum of 1000") as caught:
            publisher.send(MessageMetadata(), bytes(1000))
        assert caught.value.size_bytes > 1000
        publisher.send(MessageMetadata(), bytes(900))
        # Chunks are cut before their own fields are added.
        publisher.send(MessageMetadata(uuid="u", num_chunks_from_msg=2, chunk_id=0, total_chunk_msg_size=2), bytes(985))
    assert _sequence_ids(peer) == [0, 1]
    assert [command.send.is_chunk for command in peer.of(BaseCommand.SEND)] == [False, True]


def test_a_duplicate_among_receipts_that_come_together_leaves_the_last_message_id(
    peer: Peer, client_of: MakeClient
) -> None:
    def answer(caller: Caller, command: BaseCommand, _: bytes) -> None:
        producer_id, sequence_id = command.send.producer_id, command.send.sequence_id
        if sequence_id == 2:
            ids = Position(9, 0), Position(9, 1), Position(-1, -1)
            caller.send(*(entry_commands.send_receipt(producer_id, i, position) for i, position in enumerate(ids)))

    peer.handlers[BaseCommand.SEND] = answer
    with client_of(peer.url).publisher(TOPIC) as publisher:
        _send(publisher, 3)
        publisher.flush()
        assert publisher.last_message_id == MessageId(9, 1)
        assert publisher.duplicates == 1


def test_duplicates_dropped_by_the_broker_count_as_sent(peer: Peer, client_of: MakeClient) -> None:
    peer.answer(
        BaseCommand.SEND,
        lambda asked: entry_commands.send_receipt(asked.producer_id, asked.sequence_id, Position(-1, -1)),
    )
    with client_of(peer.url).publisher(TOPIC) as publisher:
        _send(publisher, 3)
        publisher.flush()
        assert publisher.duplicates == 3
        assert publisher.last_message_id is None


def _refuse_producer(peer: Peer, first: int, until: int, error: Exception) -> Handler:
    create = peer.handlers[BaseCommand.PRODUCER]

    def handler(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if first <= len(peer.of(BaseCommand.PRODUCER)) < until:
            caller.refuse(command, error)  # type: ignore[arg-type]
        else:
            create(caller, command, payload)

    return handler


def test_a_name_in_use_is_an_error_at_once_but_our_own_ghost_is_waited_for(peer: Peer, client: PulsarClient) -> None:
    peer.handlers[BaseCommand.SEND] = lambda caller, command, payload: (
        caller.close() if caller.number == 0 else _receipt(caller, command, payload)
    )
    create = peer.handlers[BaseCommand.PRODUCER]
    peer.handlers[BaseCommand.PRODUCER] = _refuse_producer(peer, 1, 2, ProducerBusy("in use"))
    with pytest.raises(ProducerBusy, match="in use"):
        client.publisher(TOPIC, name="mine")
    assert len(peer.of(BaseCommand.PRODUCER)) == 1
    peer.handlers[BaseCommand.PRODUCER] = create
    publisher = client.publisher(TOPIC, name="mine")
    peer.handlers[BaseCommand.PRODUCER] = _refuse_producer(peer, 3, 5, ProducerBusy("in use"))
    _send(publisher)
    publisher.close()
    assert len(peer.of(BaseCommand.PRODUCER)) == 5


def test_a_time_out_in_the_middle_of_an_attempt_names_the_refusal_of_the_one_before(
    peer: Peer, client_of: MakeClient
) -> None:
    # covers ONCE-4
    def busy_once(caller: Caller, command: BaseCommand, _: bytes) -> None:
        if len(peer.of(BaseCommand.PRODUCER)) == 1:
            caller.refuse(command, ProducerBusy("in use"))

    peer.handlers[BaseCommand.PRODUCER] = busy_once
    client = client_of(peer.url, operation_timeout_ms=800)
    with pytest.raises(OperationTimeout, match=f"800 ms creating a producer on {TOPIC} .*: in use") as caught:
        client.publisher(TOPIC, name="mine", deduplicated=True)
    assert isinstance(caught.value.__cause__, ProducerBusy)
    assert len(peer.of(BaseCommand.PRODUCER)) > 1


def test_creation_is_retried_while_that_may_help(peer: Peer, client: PulsarClient) -> None:
    peer.handlers[BaseCommand.PRODUCER] = _refuse_producer(peer, 1, 3, ServiceNotReady("Please redo the lookup"))
    client.publisher(TOPIC).close()
    assert len(peer.of(BaseCommand.LOOKUP)) == 3
    peer.handlers[BaseCommand.PRODUCER] = _refuse_producer(peer, 1, 99, TopicNotFound("none"))
    with pytest.raises(TopicNotFound):
        client.publisher(TOPIC)


def test_a_creation_that_is_never_answered_is_tried_again(peer: Peer, client_of: MakeClient) -> None:
    peer.handlers[BaseCommand.SEND] = _receipt
    peer.answer(
        BaseCommand.PRODUCER,
        lambda asked: commands.producer_success(asked.request_id, asked.producer_name, last_sequence_id=6),
    )
    peer.lose(BaseCommand.PRODUCER)
    with client_of(peer.url, operation_timeout_ms=2_000).publisher(TOPIC, name="mine") as publisher:
        assert publisher.next_sequence_id == 7  # of the first answer, though not of the first attempt
        _send(publisher)
    first, second = (command.producer for command in peer.of(BaseCommand.PRODUCER))
    assert first.producer_id != second.producer_id
    # The broker may be creating the first one still: it must not keep the name.
    closed = [command.close_producer.producer_id for command in peer.of(BaseCommand.CLOSE_PRODUCER)]
    assert closed == [first.producer_id, second.producer_id]


def test_a_creation_that_is_never_answered_at_all(peer: Peer, client_of: MakeClient) -> None:
    peer.lose(BaseCommand.PRODUCER, 99)
    with pytest.raises(OperationTimeout, match=f"1000 ms creating a producer on {TOPIC}"):
        client_of(peer.url, operation_timeout_ms=1_000).publisher(TOPIC)
    assert len(peer.of(BaseCommand.PRODUCER)) == 2


def test_an_error_on_its_way_out_is_not_hidden_by_waiting(peer: Peer, client: PulsarClient) -> None:
    publisher = client.publisher(TOPIC)

    def fail_after_sending() -> None:
        with publisher:
            _send(publisher)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail_after_sending()
    assert peer.wait_for(BaseCommand.CLOSE_PRODUCER)
    with pytest.raises(ClientClosed):
        _send(publisher)


def test_publishers_share_a_connection(peer: Peer, client: PulsarClient) -> None:
    peer.handlers[BaseCommand.SEND] = _receipt
    publishers = [client.publisher(f"{TOPIC}-partition-{i}") for i in range(4)]
    for _ in range(10):
        for publisher in publishers:
            _send(publisher)
    for publisher in publishers:
        publisher.close()
    assert len(_sequence_ids(peer)) == 40
    assert len(peer.callers) == 1


def test_a_producer_that_is_closed_as_soon_as_it_is_made_is_made_again(peer: Peer, client_of: MakeClient) -> None:
    def close_the_first(caller: Caller, command: BaseCommand, _: bytes) -> None:
        producer = command.producer
        frames = [commands.producer_success(producer.request_id, "p")]
        if len(peer.of(BaseCommand.PRODUCER)) == 1:
            frames.append(commands.close_producer(producer.producer_id))
        caller.send(*frames)

    def receipt_of_the_second(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if command.send.producer_id == peer.of(BaseCommand.PRODUCER)[-1].producer.producer_id:
            _receipt(caller, command, payload)

    peer.handlers[BaseCommand.PRODUCER] = close_the_first
    peer.handlers[BaseCommand.SEND] = receipt_of_the_second
    with client_of(peer.url).publisher(TOPIC) as publisher:
        _send(publisher)
        publisher.flush()
    assert len(peer.of(BaseCommand.PRODUCER)) == 2


def test_a_refusal_to_close_is_no_failure_when_all_is_receipted(peer: Peer, client_of: MakeClient) -> None:
    peer.handlers[BaseCommand.SEND] = _receipt
    peer.refuse(BaseCommand.CLOSE_PRODUCER, NotAllowed("Producer was not registered on the connection"))
    with client_of(peer.url).publisher(TOPIC) as publisher:
        _send(publisher)
    assert publisher.last_message_id == MessageId(9, 0)


def test_a_broker_that_takes_connections_and_is_silent_is_waited_for(peer: Peer, client_of: MakeClient) -> None:
    greet = peer.handlers[BaseCommand.CONNECT]
    client = client_of(peer.url, connect_timeout_ms=100, operation_timeout_ms=150)
    publisher = client.publisher(TOPIC, receipt_timeout_ms=10_000)
    peer.handlers[BaseCommand.SEND] = lambda caller, command, _: caller.close()

    def late(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if caller.number > 3:
            peer.handlers[BaseCommand.SEND] = _receipt
            greet(caller, command, payload)

    peer.handlers[BaseCommand.CONNECT] = late
    with publisher:
        _send(publisher)
        publisher.flush()
    assert len(peer.callers) == 5


# ---- by a clock that the test puts on


class Later:
    """The publisher's clock, which the test puts on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_ms = 0
        for module in (publishing, deadlines):
            monkeypatch.setattr(module, "monotonic_ms", lambda: monotonic_ms() + self.by_ms)


def test_waiting_for_a_receipt_does_not_begin_again_with_each_producer(
    peer: Peer, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Later(monkeypatch)
    client = client_of(peer.url, connect_timeout_ms=2_000)
    publisher = client.publisher(TOPIC, receipt_timeout_ms=60_000)
    _send(publisher)
    peer.wait_for(BaseCommand.SEND)
    later.by_ms = 59_500  # in which the broker was silent
    peer.callers[-1].send(commands.close_producer(peer.of(BaseCommand.PRODUCER)[0].producer.producer_id))
    begun = time.monotonic()
    with pytest.raises(OperationTimeout, match="after 60000 ms waiting for the receipt of sequence id 0"):
        publisher.flush()
    assert time.monotonic() - begun < 30
    assert _sequence_ids(peer) == [0, 0]  # there was time for another attempt
    publisher.abort()


def test_nobody_waits_for_a_receipt_while_nothing_is_asked_of_the_publisher(
    peer: Peer, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Later(monkeypatch)
    publisher = client_of(peer.url, connect_timeout_ms=1_000).publisher(TOPIC, receipt_timeout_ms=20_000)
    _send(publisher)
    (sent,) = peer.wait_for(BaseCommand.SEND)
    peer.callers[-1].send(commands.close_producer(sent.send.producer_id))
    eventually(lambda: publisher._broken is not None)
    later.by_ms = 90_000  # for its rows are slow to make
    with pytest.raises(OperationTimeout, match="after 1500 ms waiting"):  # and not those 20 s over already
        publisher.flush(timeout_ms=1_500)
    assert _sequence_ids(peer) == [0, 0]
    publisher.abort()
