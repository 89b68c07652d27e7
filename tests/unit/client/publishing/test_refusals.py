"""A publisher whose entries are refused in the middle, by a peer that de-duplicates: every entry, or an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import OperationTimeout, SequenceIdPassed
from spark_pulsar.client.publishing.publisher import Publisher
from spark_pulsar.model.errors import (
    WIRE_ERRORS,
    BacklogQuotaExceeded,
    BacklogQuotaHold,
    ChecksumFailed,
    MetadataError,
    NotAllowed,
    PersistenceError,
    PulsarError,
)
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata
from tests import entry_commands
from tests.unit.client.peer import Caller, Peer

MakeClient = Callable[..., PulsarClient]
TOPIC = "persistent://public/default/t"
COUNT = 10


class Deduplicating:
    """The peer's topic: stores entries, drops what is not above the last id of its producer, refuses some once.

    A refusal is sent when the next entry has arrived, so that there is always one behind it, but for the last.
    """

    def __init__(self, peer: Peer, refuse: dict[int, PulsarError]) -> None:
        self.stored: Counter[bytes] = Counter()
        self.refuse = dict(refuse)
        self.cut_at: int | None = None
        """The entry at which the connection breaks, once, before a refusal is sent."""
        self._cut: Caller | None = None
        self._refused: tuple[BaseCommand, PulsarError] | None = None
        self._names: dict[int, str] = {}
        self._last: dict[str, int] = {}
        peer.handlers[BaseCommand.PRODUCER] = self._create
        peer.handlers[BaseCommand.SEND] = self._send

    def _create(self, caller: Caller, command: BaseCommand, _: bytes) -> None:
        name = command.producer.producer_name or f"peer-{len(self._names)}"
        self._names[command.producer.producer_id] = name
        last = self._last.get(name, -1)
        caller.send(commands.producer_success(command.producer.request_id, name, last_sequence_id=last))

    def _send(self, caller: Caller, command: BaseCommand, payload: bytes) -> None:
        send = command.send
        if (
            caller is self._cut or send.producer_id not in self._names
        ):  # what it, or an aborted producer, had sent before
            return
        error = self.refuse.pop(send.sequence_id, None)
        if error is not None:
            self._refused = (command, error)
            if send.sequence_id < COUNT - 1:
                return
        if self._refused is not None and self.cut_at is None:
            caller.refuse(*self._refused)
            self._refused = None
            if error is not None:
                return
        name = self._names[send.producer_id]
        position = Position(-1, -1)
        if send.sequence_id > self._last.get(name, -1):
            self._last[name] = send.sequence_id
            self.stored[payload[-1:]] += 1
            position = Position(9, send.sequence_id)
        if send.sequence_id == self.cut_at:
            self.cut_at = self._refused = None
            self._cut = caller
            caller.close()
            return
        caller.send(entry_commands.send_receipt(send.producer_id, send.sequence_id, position))


def _publish(publisher: Publisher, **metadata: Any) -> None:
    for number in range(COUNT):
        publisher.send(MessageMetadata(**metadata), bytes([number]))
    publisher.flush()


def _failure(publisher: Publisher) -> PulsarError | None:
    """Publishes all entries; the error, which stays."""
    try:
        _publish(publisher)
    except PulsarError as error:
        return error
    return None


@pytest.mark.parametrize("kind", WIRE_ERRORS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", [None, "mine"])
@pytest.mark.parametrize("refused", [3, COUNT - 1])
def test_every_error_in_the_middle(
    kind: type[PulsarError], name: str | None, refused: int, peer: Peer, client_of: MakeClient
) -> None:
    # covers SINK-16
    topic = Deduplicating(peer, {refused: kind("no")})
    publisher = client_of(peer.url, operation_timeout_ms=3_000).publisher(TOPIC, name=name)
    expected = {bytes([number]) for number in range(COUNT)}
    error = _failure(publisher)
    if error is None:
        assert set(topic.stored) == expected
        assert kind.retriable or kind is ChecksumFailed
        publisher.close()
        return
    assert "no" in str(error) or isinstance(error, SequenceIdPassed)
    for call in (publisher.flush, publisher.flush, publisher.close):
        with pytest.raises(type(error)):
            call()
    assert not kind.retriable or (name is not None and refused < COUNT - 1)


@pytest.mark.parametrize("kind", WIRE_ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_a_producer_that_is_made_again(
    kind: type[PulsarError], peer: Peer, client_of: MakeClient
) -> None:
    # covers SINK-14, SINK-16
    topic = Deduplicating(peer, {})
    create, send = peer.handlers[BaseCommand.PRODUCER], peer.handlers[BaseCommand.SEND]

    def close_once(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if command.send.sequence_id < 3:
            send(caller, command, payload)
        elif command.send.sequence_id == 3:
            caller.send(commands.close_producer(command.send.producer_id))

    def refuse_once(caller: Caller, command: BaseCommand, _: bytes) -> None:
        peer.handlers.update({BaseCommand.PRODUCER: create, BaseCommand.SEND: send})
        caller.refuse(command, kind("no"))

    publisher = client_of(peer.url, operation_timeout_ms=3_000).publisher(TOPIC)
    peer.handlers.update({BaseCommand.PRODUCER: refuse_once, BaseCommand.SEND: close_once})
    error = _failure(publisher)
    if error is None:
        assert len(topic.stored) == COUNT
        publisher.close()
        return
    assert "no" in str(error)
    with pytest.raises(type(error)):
        publisher.close()


def test_an_entry_that_its_own_name_cannot_send_again(peer: Peer, client_of: MakeClient) -> None:
    # covers SINK-16
    Deduplicating(peer, {3: PersistenceError("disk")})
    publisher = client_of(peer.url).publisher(TOPIC, name="mine", deduplicated=True)
    with pytest.raises(SequenceIdPassed, match=r"refused an entry of .* id 3.*drops it as a duplicate"):
        _publish(publisher)
    publisher.abort()


@pytest.mark.parametrize("refused", [None, 3])
def test_a_refusal_that_is_lost_with_the_connection(refused: int | None, peer: Peer, client_of: MakeClient) -> None:
    # covers SINK-16
    topic = Deduplicating(peer, {} if refused is None else {refused: PersistenceError("disk")})
    topic.cut_at = 4 if refused is not None else 0
    _publish(client_of(peer.url).publisher(TOPIC))
    assert set(topic.stored) == {bytes([number]) for number in range(COUNT)}
    names = [command.producer.producer_name for command in peer.of(BaseCommand.PRODUCER)]
    # What alone is stored cannot hide a refusal: the topic drops it under the old name.
    assert names == (["", "peer-0"] if refused is None else ["", "peer-0", ""])
    assert topic.stored[b"\0"] == 1


def test_refusals_name_entry_and_policy(peer: Peer, client_of: MakeClient) -> None:
    # covers SINK-13, SINK-14
    for error, text in (
        (
            NotAllowed("Exceed maximum message size"),
            r"\(policy maxMessageSize.*refused was an entry of .* sequence id 4",
        ),
        (
            NotAllowed("Exceeds max allowed delivery delay of 9 milliseconds"),
            r"\(policy delayedDelivery.*key 'k', to be",
        ),
        (MetadataError("Messages must be encrypted"), r"\(policy encryption_required"),
    ):
        Deduplicating(peer, {4: error})
        publisher = client_of(peer.url).publisher(TOPIC)
        with pytest.raises(type(error), match=f"{TOPIC}: {error.message}.*{text}"):
            _publish(publisher, partition_key="k", publish_time=1000, deliver_at_time=1100)
        publisher.abort()


def test_encryption_that_is_required_is_an_error_at_once(peer: Peer, client_of: MakeClient) -> None:
    # covers SINK-14
    peer.refuse(BaseCommand.PRODUCER, MetadataError("Encryption is required in t"))
    with pytest.raises(MetadataError, match="Encryption is required"):
        client_of(peer.url, operation_timeout_ms=60_000).publisher(TOPIC)
    assert len(peer.of(BaseCommand.PRODUCER)) == 1


@pytest.mark.parametrize("error", [BacklogQuotaHold("full"), BacklogQuotaExceeded("full")])
def test_a_quota_that_is_reached_in_the_middle(error: PulsarError, peer: Peer, client_of: MakeClient) -> None:
    # covers SINK-14
    publisher = client_of(peer.url, operation_timeout_ms=1_000).publisher(TOPIC)

    def close(caller: Caller, command: BaseCommand, _: bytes) -> None:
        caller.send(commands.close_producer(command.send.producer_id))

    peer.handlers[BaseCommand.SEND] = close
    peer.refuse(BaseCommand.PRODUCER, error)
    with pytest.raises(OperationTimeout if error.retriable else BacklogQuotaExceeded, match="full"):
        _publish(publisher)
    publisher.abort()
