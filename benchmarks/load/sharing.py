"""A backlog that many consumers share, each on a connection of its own."""

import contextlib
import select
import time

from load import frames
from load.connection import ANSWER_TIMEOUT_S, Connection, UnexpectedFrame
from load.workloads import ACK_GROUP, ACK_GROUP_S, CONSUMER_ID, RECEIVER_QUEUE, fresh_topic, publish_backlog
from spark_pulsar.wire import pulsar_api_pb2 as api

NO_PARTITION = b"\x18" + b"\xff" * 9 + b"\x01"
"""How a message id ends on a topic that is no partition; an acknowledgement names the id without it."""
_ID_SIZE_AT = 15
"""Where the size of the message id stands in a MESSAGE frame of a consumer with a small id."""
_PREFIXES = [b"\x1a" + bytes((size,)) for size in range(64)]


class Member:
    """One consumer, and what it was sent: every message as the part of an acknowledgement that names it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.parts: list[bytes] = []
        self.acked = 0
        self.last_ack = 0.0
        self._to_refill = 0

    def take(self) -> None:
        """Note all messages that have arrived, and refill the receiver queue by halves."""
        connection = self.connection
        if not connection.receive():
            return
        buffer, start, end = connection.buffer, connection.start, connection.end
        parts = self.parts
        before, cut = len(parts), len(NO_PARTITION)
        while end - start >= 64:
            size = int.from_bytes(buffer[start : start + 4], "big") + 4
            if start + size > end:
                break
            if buffer[start + 9] == frames.MESSAGE:
                id_size = buffer[start + _ID_SIZE_AT] - cut
                parts.append(_PREFIXES[id_size] + buffer[start + 16 : start + 16 + id_size])
                start += size
            else:
                connection.start = start
                connection.take(frames.MESSAGE, 1)
                start = connection.start
        connection.start = start
        self._to_refill += len(parts) - before
        if self._to_refill >= RECEIVER_QUEUE // 2:
            connection.flow(CONSUMER_ID, self._to_refill)
            self._to_refill = 0

    def acknowledge(self, now: float) -> None:
        """Acknowledge in groups, as official clients do."""
        waiting = len(self.parts) - self.acked
        if waiting >= ACK_GROUP or (waiting and now - self.last_ack >= ACK_GROUP_S):
            upto = self.acked + min(waiting, ACK_GROUP)
            self.connection.send_all(frames.ack_frame(CONSUMER_ID, self.parts[self.acked : upto]))
            self.acked, self.last_ack = upto, now

    def ask_for_receipt(self) -> None:
        """Acknowledge the rest and want to know when that is on disk."""
        rest = self.parts[self.acked :]
        self.connection.send_all(frames.ack_frame(CONSUMER_ID, rest, self.connection.request_id()))

    def await_receipt(self) -> None:
        """Wait for that; the messages that come before it are not counted."""
        answer = self.connection.answer("ackResponse", drop=frames.MESSAGE).ackResponse
        if answer.HasField("error"):
            raise UnexpectedFrame(str(answer))


def consume_shared(service_url: str, buffer: frames.SendBuffer, kind: int, members: int, seconds: float) -> float:
    """Publish a backlog, then drain it with so many consumers until the time or the backlog ends; messages a second,
    the last acknowledgements' receipts included."""
    topic = fresh_topic()
    with contextlib.ExitStack() as stack:
        found = [Member(stack.enter_context(Connection(service_url))) for _ in range(members)]
        for member in found:
            member.connection.subscribe(topic, "load", kind, CONSUMER_ID)
        ids = publish_backlog(service_url, topic, buffer)
        rate = _drain(found, buffer.count, seconds)
        _check(found, ids, buffer.keys if kind == api.CommandSubscribe.Key_Shared else 0)
        for member in found[1:]:
            member.connection.close()
        return rate


def _drain(members: list[Member], count: int, seconds: float) -> float:
    poll = select.poll()
    by_socket = {member.connection.sock.fileno(): member for member in members}
    for number in by_socket:
        poll.register(number, select.POLLIN)
    started = heard = now = time.perf_counter()
    for member in members:
        member.last_ack = started
        member.connection.flow(CONSUMER_ID, RECEIVER_QUEUE)
    while now < started + seconds and sum(len(member.parts) for member in members) < count:
        ready = poll.poll(ACK_GROUP_S * 1000)
        now = time.perf_counter()
        if ready:
            heard = now
        elif now - heard > ANSWER_TIMEOUT_S:
            raise TimeoutError("messages are missing")
        for number, _ in ready:
            by_socket[number].take()
        for member in members:
            member.acknowledge(now)
    for member in members:
        member.ask_for_receipt()
    for member in members:
        member.await_receipt()
    return sum(len(member.parts) for member in members) / (time.perf_counter() - started)


def _check(members: list[Member], ids: list[tuple[int, int]], keys: int) -> None:
    """Nothing came twice, everybody got something; each of `keys` went to one consumer, in order."""
    places = {frames.ack_part(*position): place for place, position in enumerate(ids)}
    seen: set[bytes] = set()
    owners: dict[int, Member] = {}
    for member in members:
        if not member.parts or not seen.isdisjoint(member.parts):
            raise UnexpectedFrame("a message came twice, or none to one consumer")
        seen.update(member.parts)
        came = [places[part] for part in member.parts]
        if keys and (
            came != sorted(came) or any(owners.setdefault(each % keys, member) is not member for each in came)
        ):
            raise UnexpectedFrame("a key is out of order, or at two consumers")
    if len(seen) != sum(len(member.parts) for member in members):
        raise UnexpectedFrame("a message came twice to one consumer")
