"""The measurements. Each takes a service URL and returns figures; nothing here knows which broker it talks to."""

import contextlib
import itertools
import os
import time
from collections import deque
from dataclasses import dataclass

from load import frames
from load.connection import ANSWER_TIMEOUT_S, Connection, UnexpectedFrame
from spark_pulsar.wire import pulsar_api_pb2 as api

CONSUMER_ID = 1
# What the official clients do: a receiver queue of 1,000, refilled by halves; acks leave by 1,000 or after 100 ms.
RECEIVER_QUEUE = 1000
ACK_GROUP = 1000
ACK_GROUP_S = 0.1
MAX_COMMAND_BYTES = 64
"""Bytes of a MESSAGE frame up to the end of its message id."""

_topic_numbers = itertools.count()


def fresh_topic() -> str:
    """A topic name that was never used."""
    return f"persistent://public/default/load-{os.getpid()}-{next(_topic_numbers)}"


@dataclass(slots=True)
class Published:
    """Outcome of a publishing run: messages a second over all, and the ids of the receipts when requested."""

    messages_per_s: float
    ids: list[tuple[int, int]]


def publish(
    service_url: str,
    buffer: frames.SendBuffer,
    topics: list[str],
    in_flight: int,
    seconds: float = float("inf"),
    keep_ids: bool = False,
) -> Published:
    """Sends frames, at most `in_flight` unanswered, until the buffer or the time ends, and awaits the rest."""
    with Connection(service_url) as connection:
        connection.create_producers(topics)
        return pump(connection, buffer, in_flight, seconds, keep_ids)


def pump(
    connection: Connection,
    buffer: frames.SendBuffer,
    in_flight: int,
    seconds: float = float("inf"),
    keep_ids: bool = False,
) -> Published:
    """Sends frames as `publish` does, by producers that a connection has."""
    data, size, count = buffer.data, buffer.frame_bytes, buffer.count
    ids: list[tuple[int, int]] = []
    sent = answered = 0  # bytes sent; frames answered
    started = time.perf_counter()
    deadline = started + seconds
    heard = started
    while True:
        now = time.perf_counter()
        if now >= deadline:  # no new frame, but the one that is partly out must be finished
            count = min(count, -(-sent // size))
        if answered == count:
            break
        limit = min(answered + in_flight, count) * size
        if sent < limit:
            with contextlib.suppress(BlockingIOError):
                sent += connection.sock.send(data[sent:limit])
        connection.wait(1.0, to_write=sent < limit)
        if connection.receive():
            heard = now
            receipts = connection.take(frames.SEND_RECEIPT)
            answered += receipts
            if keep_ids:
                ids += _ids_of(connection, connection.starts[:receipts].tolist())
        elif now - heard > ANSWER_TIMEOUT_S:
            raise TimeoutError(f"{sent // size - answered} receipts missing for {ANSWER_TIMEOUT_S:g} s")
    elapsed = time.perf_counter() - started
    return Published(answered * buffer.messages_per_frame / elapsed, ids)


def _ids_of(connection: Connection, receipts: list[int]) -> list[tuple[int, int]]:
    """The ids that receipts name; those between the first and the last are known when they are as far apart."""
    if not receipts:
        return []
    first, last = (connection.command_at(receipts[at]).send_receipt.message_id for at in (0, -1))
    if first.ledgerId == last.ledgerId and last.entryId - first.entryId == len(receipts) - 1:
        return [(first.ledgerId, entry_id) for entry_id in range(first.entryId, last.entryId + 1)]
    found = [connection.command_at(start).send_receipt.message_id for start in receipts]
    return [(message_id.ledgerId, message_id.entryId) for message_id in found]


def publish_paced(service_url: str, buffer: frames.SendBuffer, per_s: float, seconds: float) -> list[float]:
    """Sends one frame every 1 / `per_s` seconds, each on its own; returns the latencies to its receipt in ms, sorted.

    The pace does not wait for receipts, so a slow broker shows as latency and not as a lower rate.
    """
    latencies_ms: list[float] = []
    unanswered: deque[float] = deque()
    data, size = buffer.data, buffer.frame_bytes
    count = min(int(per_s * seconds), buffer.count)
    with Connection(service_url) as connection:
        connection.create_producers([fresh_topic()])
        clock = time.perf_counter
        started = clock()
        sent = 0
        while len(latencies_ms) < count:
            due = started + sent / per_s
            now = clock()
            if sent < count and now >= due:
                unanswered.append(now)
                connection.send_all(data[sent * size : (sent + 1) * size])
                sent += 1
                continue
            connection.wait(min(due - now, 1.0) if sent < count else 1.0)
            if connection.receive():
                now = clock()
                for _ in range(connection.take(frames.SEND_RECEIPT)):
                    latencies_ms.append((now - unanswered.popleft()) * 1000)
            elif unanswered and now - unanswered[0] > ANSWER_TIMEOUT_S:
                raise TimeoutError("no receipt")
    return sorted(latencies_ms)


def publish_backlog(service_url: str, topic: str, buffer: frames.SendBuffer) -> list[tuple[int, int]]:
    """Publishes all of a buffer; returns where every entry is, in order."""
    in_flight = 200 if buffer.messages_per_frame > 1 else 1000
    return publish(service_url, buffer, [topic], in_flight, keep_ids=True).ids


class Backlog:
    """A topic with a durable subscription at its beginning and `count` entries to consume."""

    def __init__(
        self, service_url: str, buffer: frames.SendBuffer, kind: int, receiver_queue: int = RECEIVER_QUEUE
    ) -> None:
        self.service_url = service_url
        self.topic = fresh_topic()
        self.kind = kind
        self.receiver_queue = receiver_queue
        self.messages_per_entry = buffer.messages_per_frame
        with Connection(service_url) as connection:
            connection.subscribe(self.topic, "load", kind, CONSUMER_ID)
        self.ids = publish_backlog(service_url, self.topic, buffer)

    def consume(self, seconds: float) -> float:
        """Reads and acknowledges until the time or the backlog ends; messages a second, last ack's receipt included."""
        with Connection(self.service_url) as connection:
            connection.subscribe(self.topic, "load", self.kind, CONSUMER_ID)
            if self.kind == api.CommandSubscribe.Failover:
                connection.become_active()
            rate = self._consume(connection, seconds)
            request = api.CommandUnsubscribe(consumer_id=CONSUMER_ID, request_id=connection.request_id())
            connection.send_all(frames.command(unsubscribe=request))
            connection.answer("success", drop=frames.MESSAGE)
        return rate

    def _consume(self, connection: Connection, seconds: float) -> float:
        parts = [frames.ack_part(*position) for position in self.ids]
        count, per_entry = len(self.ids), self.messages_per_entry
        received = acked = 0
        to_refill = refill = self.receiver_queue // 2 // per_entry
        started = last_ack = time.perf_counter()
        deadline = started + seconds
        connection.flow(CONSUMER_ID, self.receiver_queue)
        while received < count:
            now = time.perf_counter()
            if now >= deadline:
                break
            if received - acked >= ACK_GROUP or (received > acked and now - last_ack >= ACK_GROUP_S):
                upto = min(received, acked + ACK_GROUP)
                connection.send_all(frames.ack_frame(CONSUMER_ID, parts[acked:upto]))
                acked, last_ack = upto, now
                continue
            connection.wait(ACK_GROUP_S)
            if not connection.receive():
                continue
            while found := connection.take(frames.MESSAGE, min(to_refill, count - received)):
                received += found
                self._check_order(connection.buffer, connection.starts[found - 1], received)
                to_refill -= found
                if not to_refill:
                    connection.flow(CONSUMER_ID, refill * per_entry)
                    to_refill = refill
        request_id = connection.request_id()
        connection.send_all(frames.ack_frame(CONSUMER_ID, parts[acked:received], request_id))
        answer = connection.answer("ackResponse", drop=frames.MESSAGE).ackResponse
        if answer.HasField("error"):
            raise UnexpectedFrame(str(answer))
        return received * per_entry / (time.perf_counter() - started)

    def _check_order(self, buffer: bytearray, start: int, received: int) -> None:
        """The last frame of a read must be that of the last id; comparing its bytes costs little."""
        message_id = frames.message_id(*self.ids[received - 1])
        if buffer.find(message_id, start, start + MAX_COMMAND_BYTES) < 0:
            raise UnexpectedFrame(f"message {received} is not {self.ids[received - 1]}")
