"""Consumers that need not know the messages beforehand."""

import time

from load import frames
from load.connection import ANSWER_TIMEOUT_S, Connection, UnexpectedFrame
from spark_pulsar.wire import pulsar_api_pb2 as api

CONSUMER_ID = 1
PERMITS = 10_000
ACK_GROUP = 100


def first_message_s(service_url: str, topic: str, subscription: str) -> float:
    """Measures the time to connect, join the subscription, and get one message."""
    started = time.perf_counter()
    with Connection(service_url) as connection:
        connection.subscribe(topic, subscription, api.CommandSubscribe.Shared, CONSUMER_ID)
        connection.flow(CONSUMER_ID, 1)
        connection.answer("message")
        return time.perf_counter() - started


def consume_all(service_url: str, topic: str, subscription: str, entries: int) -> None:
    """Acknowledges `entries` entries as they come, in groups, and awaits the last receipt."""
    with Connection(service_url) as connection:
        connection.subscribe(topic, subscription, api.CommandSubscribe.Exclusive, CONSUMER_ID)
        connection.flow(CONSUMER_ID, PERMITS)
        parts: list[bytes] = []
        taken = received = 0
        heard = time.perf_counter()
        while received < entries:
            connection.wait(1.0)
            if not connection.receive():
                if time.perf_counter() - heard > ANSWER_TIMEOUT_S:
                    raise TimeoutError(f"{entries - received} entries missing for {ANSWER_TIMEOUT_S:g} s")
                continue
            heard = time.perf_counter()
            for start in connection.starts[: connection.take(frames.MESSAGE)].tolist():
                message_id = connection.command_at(start).message.message_id
                parts.append(frames.ack_part(message_id.ledgerId, message_id.entryId))
                taken += _messages_at(connection, start)
                received += 1
            if len(parts) >= ACK_GROUP and received < entries:
                connection.send_all(frames.ack_frame(CONSUMER_ID, parts))
                parts = []
            if taken >= PERMITS // 2:
                connection.flow(CONSUMER_ID, taken)
                taken = 0
        connection.send_all(frames.ack_frame(CONSUMER_ID, parts, connection.request_id()))
        answer = connection.answer("ackResponse", drop=frames.MESSAGE).ackResponse
        if answer.HasField("error"):
            raise UnexpectedFrame(str(answer))


def _messages_at(connection: Connection, start: int) -> int:
    """Messages of the entry whose frame starts there."""
    buffer = connection.buffer
    at = start + 8 + int.from_bytes(buffer[start + 4 : start + 8], "big")
    if buffer[at : at + 2] == b"\x0e\x01":
        at += 6
    size = int.from_bytes(buffer[at : at + 4], "big")
    return api.MessageMetadata.FromString(bytes(buffer[at + 4 : at + 4 + size])).num_messages_in_batch
