"""Consumers that wait."""

import contextlib
from collections.abc import Iterator

from load import frames
from load.connection import Connection
from load.workloads import RECEIVER_QUEUE, fresh_topic
from spark_pulsar.wire import pulsar_api_pb2 as api


@contextlib.contextmanager
def idle_consumers(service_url: str, count: int, connections: int) -> Iterator[None]:
    """Consumers of one Shared subscription of an empty topic, with permits, spread over connections."""
    topic = fresh_topic()
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(Connection(service_url, small=True)) for _ in range(connections)]
        for index in range(count):
            connection, consumer_id = found[index % connections], index // connections
            connection.subscribe(topic, "idle", api.CommandSubscribe.Shared, consumer_id)
            connection.flow(consumer_id, RECEIVER_QUEUE)
        for connection in found:  # what was sent before it has been done when it is answered
            connection.send_all(frames.command(ping=api.CommandPing()))
            connection.answer("pong")
        yield
