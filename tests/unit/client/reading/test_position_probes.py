"""Probes kept between questions: what happens to one whose question is given up."""

from __future__ import annotations

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.client.peer import Caller, Peer

HERE, GONE = "persistent://public/default/here", "persistent://public/default/gone"


def test_a_kept_probe_is_closed_when_another_topic_ends_the_question() -> None:
    peer = Peer()
    peer.last = MessageId(1, 9)

    friendly = peer.handlers[BaseCommand.LOOKUP]

    def looked_up(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if command.lookupTopic.topic == GONE:
            caller.refuse(command, TopicNotFound("no such namespace"))
        else:
            friendly(caller, command, payload)

    peer.handlers[BaseCommand.LOOKUP] = looked_up
    try:
        with PulsarClient(ClientConfig(peer.url)) as client:
            client.end_positions([HERE])
            with pytest.raises(TopicNotFound):
                client.end_positions([GONE, HERE])
            [kept] = [one.subscribe for one in peer.of(BaseCommand.SUBSCRIBE) if one.subscribe.topic == HERE]
            [closed] = peer.wait_for(BaseCommand.CLOSE_CONSUMER)
            assert closed.close_consumer.consumer_id == kept.consumer_id
    finally:
        peer.close()
