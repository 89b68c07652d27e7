"""A backlog that many consumers share, each on a connection of its own."""

import contextlib
import itertools
import select
import time
from typing import Any

import numpy as np

from load import frames, walk
from load.connection import ANSWER_TIMEOUT_S, Connection, UnexpectedFrame
from load.workloads import ACK_GROUP, ACK_GROUP_S, CONSUMER_ID, RECEIVER_QUEUE, fresh_topic, publish_backlog
from spark_pulsar.wire import pulsar_api_pb2 as api

_REFILL = RECEIVER_QUEUE // 2


class Member:
    """One consumer and its messages, each as the part of an acknowledgement that names it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.received = 0
        self.acked = 0
        self.last_ack = 0.0
        self._parts = np.empty(1 << 20, np.uint8)
        self._ends = np.zeros(1 << 16, np.int64)
        """Ends of the parts, one after the other, behind the 0 at which the first of them begins."""
        self._to_refill = _REFILL

    def take(self) -> None:
        """Notes all messages that have arrived, and refills the receiver queue by halves."""
        connection = self.connection
        if not connection.receive():
            return
        while found := connection.take(frames.MESSAGE, self._to_refill):
            view = np.frombuffer(connection.buffer, np.uint8)
            begin = int(self._ends[self.received])
            self._parts = walk.grown(self._parts, begin + found * walk.MAX_PART_BYTES)
            self._ends = walk.grown(self._ends, self.received + found + 1)
            walk.ack_parts(view, connection.starts, found, self._parts, begin, self._ends, self.received + 1)
            self.note(view, found)
            self.received += found
            self._to_refill -= found
            if not self._to_refill:
                connection.flow(CONSUMER_ID, _REFILL)
                self._to_refill = _REFILL

    def note(self, view: Any, found: int) -> None:
        """Is there for those who need more of the first `found` messages at the connection's starts than their ids."""

    def acknowledge(self, now: float) -> None:
        """Acknowledges in groups, as official clients do."""
        waiting = self.received - self.acked
        if waiting >= ACK_GROUP or (waiting and now - self.last_ack >= ACK_GROUP_S):
            self._acknowledge(self.acked + min(waiting, ACK_GROUP))
            self.last_ack = now

    def ask_for_receipt(self) -> None:
        """Acknowledges the rest and requests a receipt for it."""
        self._acknowledge(self.received, self.connection.request_id())

    def _acknowledge(self, upto: int, request_id: int | None = None) -> None:
        parts = self._parts[self._ends[self.acked] : self._ends[upto]].tobytes()
        self.connection.send_all(frames.ack_frame(CONSUMER_ID, [parts], request_id))
        self.acked = upto

    @property
    def parts(self) -> list[bytes]:
        """Every message, as the part of an acknowledgement that names it."""
        ends = self._ends[: self.received + 1].tolist()
        return [self._parts[begin:end].tobytes() for begin, end in itertools.pairwise(ends)]

    def await_receipt(self) -> None:
        """Waits for that receipt; messages that come before it are not counted."""
        answer = self.connection.answer("ackResponse", drop=frames.MESSAGE).ackResponse
        if answer.HasField("error"):
            raise UnexpectedFrame(str(answer))


def consume_shared(service_url: str, buffer: frames.SendBuffer, kind: int, members: int, seconds: float) -> float:
    """Publishes a backlog, then drains it with so many consumers until the time or the backlog ends; messages a second,
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
    while now < started + seconds and sum(member.received for member in members) < count:
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
    return sum(member.received for member in members) / (time.perf_counter() - started)


def _check(members: list[Member], ids: list[tuple[int, int]], keys: int) -> None:
    """Checks that no message came twice and every consumer got some; each of `keys` went to one consumer, in order."""
    places = {frames.ack_part(*position): place for place, position in enumerate(ids)}
    seen: set[bytes] = set()
    owners: dict[int, Member] = {}
    for member in members:
        parts = member.parts
        if not parts or not seen.isdisjoint(parts):
            raise UnexpectedFrame("a message came twice, or none to one consumer")
        seen.update(parts)
        came = [places[part] for part in parts]
        if keys and (
            came != sorted(came) or any(owners.setdefault(each % keys, member) is not member for each in came)
        ):
            raise UnexpectedFrame("a key is out of order, or at two consumers")
    if len(seen) != sum(member.received for member in members):
        raise UnexpectedFrame("a message came twice to one consumer")
