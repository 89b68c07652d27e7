"""Types of subscription that a reader tries one after the other, where a broker forbids some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.model.positions.ids import EARLIEST_ID, MessageId
from spark_pulsar.wire.protocol.commands import success
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe
from tests.unit.client.peer import Caller, Peer

MakeClient = Callable[..., PulsarClient]
TOPIC = "persistent://public/default/t"


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
            caller.send(success(asked.request_id))

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
