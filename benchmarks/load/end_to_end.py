"""End to end: from a producer to a consumer at a fixed pace."""

import select
import time
from collections import deque

from load import frames
from load.connection import ANSWER_TIMEOUT_S, Connection
from load.workloads import ACK_GROUP, ACK_GROUP_S, CONSUMER_ID, RECEIVER_QUEUE, fresh_topic
from spark_pulsar.wire import pulsar_api_pb2 as api


class _Listener:
    """The consumer's side: grants, and acknowledges in groups, as official clients do."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._unacked: list[bytes] = []
        self._last_ack = time.perf_counter()
        self._to_refill = 0

    def take(self) -> int:
        """Number of messages that have arrived."""
        connection = self._connection
        count = connection.take(frames.MESSAGE) if connection.receive() else 0
        for start in connection.starts[:count].tolist():
            size = connection.buffer[start + 15]
            message_id = api.MessageIdData.FromString(bytes(connection.buffer[start + 16 : start + 16 + size]))
            self._unacked.append(frames.ack_part(message_id.ledgerId, message_id.entryId))
        self._to_refill += count
        return count

    def answer(self, now: float) -> None:
        """Sends the frames that are due, after the clock was read."""
        if self._to_refill >= RECEIVER_QUEUE // 2:
            self._connection.flow(CONSUMER_ID, self._to_refill)
            self._to_refill = 0
        if len(self._unacked) >= ACK_GROUP or (self._unacked and now - self._last_ack >= ACK_GROUP_S):
            self._connection.send_all(frames.ack_frame(CONSUMER_ID, self._unacked))
            self._unacked, self._last_ack = [], now


def end_to_end(service_url: str, buffer: frames.SendBuffer, per_s: float, seconds: float) -> list[float]:
    """Sends one frame every 1 / `per_s` seconds, each on its own, to one consumer on another connection; returns the
    times from sending to arrival in ms, sorted. The pace waits for nothing.
    """
    topic = fresh_topic()
    data, size = buffer.data, buffer.frame_bytes
    count = min(int(per_s * seconds), buffer.count)
    latencies_ms: list[float] = []
    clock = time.perf_counter
    with Connection(service_url) as producer, Connection(service_url) as consumer:
        consumer.subscribe(topic, "load", api.CommandSubscribe.Exclusive, CONSUMER_ID)
        consumer.flow(CONSUMER_ID, RECEIVER_QUEUE)
        producer.create_producers([topic])
        listener = _Listener(consumer)
        sockets = [producer.sock, consumer.sock]
        started = heard = clock()
        sent_at: deque[float] = deque()
        sent = 0
        while len(latencies_ms) < count:
            now = clock()
            due = started + sent / per_s
            if sent < count and now >= due:
                sent_at.append(now)
                producer.send_all(data[sent * size : (sent + 1) * size])
                sent += 1
                continue
            ready, _, _ = select.select(sockets, [], [], max(0.0, due - now) if sent < count else 1.0)
            if consumer.sock in ready:
                arrived = listener.take()
                heard = now = clock()
                latencies_ms += [(now - sent_at.popleft()) * 1000 for _ in range(arrived)]
                listener.answer(now)
            if producer.sock in ready and producer.receive():
                producer.take(frames.SEND_RECEIPT)
            if now - heard > ANSWER_TIMEOUT_S:
                raise TimeoutError("messages are missing")
    return sorted(latencies_ms)
