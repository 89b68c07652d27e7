"""Many publishers and the consumers of one Key_Shared subscription at the same time, down to an empty backlog."""

import contextlib
import json
import select
import time
import urllib.request
from typing import Any

import numpy as np

from load import frames, walk
from load.connection import ANSWER_TIMEOUT_S, Connection, UnexpectedFrame
from load.peers import Peer
from load.sharing import Member
from load.workloads import ACK_GROUP_S, CONSUMER_ID, RECEIVER_QUEUE, fresh_topic
from spark_pulsar.wire import pulsar_api_pb2 as api

PUBLISHERS, CONNECTIONS, CONSUMERS = 500, 20, 20
"""Publishers share connections; each consumer has one of its own."""
MESSAGE_BYTES, KEYS, IN_FLIGHT = 128, 1000, 5000
SUBSCRIPTION = "load"
BACKLOG_TIMEOUT_S = 10.0


class Publishers:
    """Producers of one connection, which send in turn, with a limit of SENDs that wait for their receipts."""

    def __init__(self, connection: Connection, topic: str, buffer: frames.SendBuffer, in_flight: int) -> None:
        connection.create_many_producers([topic] * buffer.producers, producer_name=None)
        self.connection = connection
        self.answered = 0
        self._in_flight = in_flight
        self._size = buffer.frame_bytes
        self._data = buffer.data
        self._count = buffer.count
        self._sent = 0

    @property
    def is_done(self) -> bool:
        """Returns whether every SEND has its receipt and no more will follow."""
        return self.answered == self._count

    def end(self) -> None:
        """Sends no new frame; the one that is partly out is finished."""
        self._count = min(self._count, -(-self._sent // self._size))

    def act(self, *, heard: bool) -> bool:
        """Takes receipts, if there is something to read, and sends what it may; returns whether the socket is full."""
        if heard and self.connection.receive():
            self.answered += self.connection.take(frames.SEND_RECEIPT)
        limit = min(self.answered + self._in_flight, self._count) * self._size
        if self._sent >= limit:
            return False
        with contextlib.suppress(BlockingIOError):
            self._sent += self.connection.sock.send(self._data[self._sent : limit])
        return self._sent < limit


class KeyedMember(Member):
    """A consumer that notes the key of each message beside its id."""

    def __init__(self, connection: Connection, payload_bytes: int) -> None:
        super().__init__(connection)
        self._payload_bytes = payload_bytes
        self._keys = np.empty(1 << 16, np.int64)

    def note(self, view: Any, found: int) -> None:
        """Notes their keys."""
        self._keys = walk.grown(self._keys, self.received + found)
        walk.key_numbers(view, self.connection.starts, found, self._payload_bytes, self._keys, self.received)

    @property
    def keys(self) -> list[int]:
        """The number of every message's key."""
        return list(self._keys[: self.received].tolist())


def showcase(peer: Peer, buffer: frames.SendBuffer, seconds: float) -> float:
    """Publishes for so many seconds from all connections, each with the buffer's producers, while the consumers read,
    who go on until all is acknowledged. Returns the messages consumed a second, over the whole time.

    Raises:
        UnexpectedFrame: A message came twice or not at all, a key was at two consumers or out of order, or the
            subscription has a backlog at the end.
    """
    topic = fresh_topic()
    with contextlib.ExitStack() as stack:
        consumers = [
            KeyedMember(stack.enter_context(Connection(peer.service_url)), buffer.message_bytes)
            for _ in range(CONSUMERS)
        ]
        for consumer in consumers:
            consumer.connection.subscribe(topic, SUBSCRIPTION, api.CommandSubscribe.Key_Shared, CONSUMER_ID)
        publishers = [
            Publishers(stack.enter_context(Connection(peer.service_url)), topic, buffer, IN_FLIGHT // CONNECTIONS)
            for _ in range(CONNECTIONS)
        ]
        rate = _run(publishers, consumers, seconds)
        _check(consumers, sum(publisher.answered for publisher in publishers))
        if peer.admin_url is not None:
            await_empty_backlog(peer.admin_url, topic)
        return rate


def _run(publishers: list[Publishers], consumers: list[KeyedMember], seconds: float) -> float:
    poll = select.poll()
    actors: list[Publishers | KeyedMember] = [*publishers, *consumers]
    by_socket = {actor.connection.sock.fileno(): actor for actor in actors}
    for number in by_socket:
        poll.register(number, select.POLLIN)
    started = heard = now = time.perf_counter()
    for consumer in consumers:
        consumer.last_ack = started
        consumer.connection.flow(CONSUMER_ID, RECEIVER_QUEUE)
    ready = [(publisher.connection.sock.fileno(), select.POLLOUT) for publisher in publishers]
    full: dict[int, bool] = {}
    ends = False
    while not (ends and _is_over(publishers, consumers)):
        if not ends and (now > started + seconds or all(publisher.is_done for publisher in publishers)):
            ends = True
            for publisher in publishers:
                publisher.end()
        for number, event in ready:
            actor = by_socket[number]
            if isinstance(actor, Publishers):
                is_full = actor.act(heard=bool(event & ~select.POLLOUT))
                if is_full != full.get(number, False):
                    full[number] = is_full
                    poll.modify(number, select.POLLIN | select.POLLOUT if is_full else select.POLLIN)
            else:
                actor.take()
        for consumer in consumers:
            consumer.acknowledge(now)
        ready = poll.poll(ACK_GROUP_S * 1000)
        now = time.perf_counter()
        if ready:
            heard = now
        elif now - heard > ANSWER_TIMEOUT_S:
            raise TimeoutError("messages or receipts are missing")
    for consumer in consumers:
        consumer.ask_for_receipt()
    for consumer in consumers:
        consumer.await_receipt()
    return sum(consumer.received for consumer in consumers) / (time.perf_counter() - started)


def _is_over(publishers: list[Publishers], consumers: list[KeyedMember]) -> bool:
    published = sum(publisher.answered for publisher in publishers)
    received = sum(consumer.received for consumer in consumers)
    return all(publisher.is_done for publisher in publishers) and received >= published


def _check(consumers: list[KeyedMember], published: int) -> None:
    """Checks that each message came once, and that each key was at one consumer and in the order of the topic."""
    seen: set[bytes] = set()
    owners: dict[int, KeyedMember] = {}
    last: dict[int, tuple[int, int]] = {}
    for consumer in consumers:
        for key, part in zip(consumer.keys, consumer.parts, strict=True):
            message_id = api.MessageIdData.FromString(part[2:])
            position = (message_id.ledgerId, message_id.entryId)
            if owners.setdefault(key, consumer) is not consumer or position <= last.get(key, (-1, -1)):
                raise UnexpectedFrame(f"key {key} is out of order, or at two consumers")
            last[key] = position
            seen.add(part)
    received = sum(consumer.received for consumer in consumers)
    if not len(seen) == received == published:
        raise UnexpectedFrame(f"{published} messages were published, {received} received, {len(seen)} different ones")


def await_empty_backlog(admin_url: str, topic: str) -> None:
    """Waits until the topic's statistics report that the subscription has no backlog."""
    url = f"{admin_url}/admin/v2/{topic.replace('://', '/')}/stats?getPreciseBacklog=true"
    deadline = time.monotonic() + BACKLOG_TIMEOUT_S
    while True:
        with urllib.request.urlopen(url) as answer:
            backlog = json.load(answer)["subscriptions"][SUBSCRIPTION]["msgBacklog"]
        if backlog == 0:
            return
        if time.monotonic() > deadline:
            raise UnexpectedFrame(f"the backlog is {backlog} at the end")
        time.sleep(0.1)
