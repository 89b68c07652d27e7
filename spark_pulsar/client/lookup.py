"""Lookups: the broker that serves a topic, the topics of a namespace, the partitions of a topic (W2)."""

import threading
from functools import lru_cache
from typing import Final, Literal

from spark_pulsar.client.connections.connection import Connection
from spark_pulsar.client.connections.pool import ConnectionPool, Target
from spark_pulsar.client.connections.service_url import Address, parse_service_url, uses_tls
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import TooManyRedirects, UnexpectedReply
from spark_pulsar.client.reader_types import ReaderTypes
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.limits import MAX_LOOKUP_REDIRECTS, MAX_PARTITIONS
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import CommandGetTopicsOfNamespace, CommandLookupTopicResponse

from .connections.demultiplexer import next_id
from .connections.pipelined_requests import PipelinedRequest

TopicMode = Literal["persistent", "non-persistent", "all"]
_MODES: Final = {
    "persistent": CommandGetTopicsOfNamespace.PERSISTENT,
    "non-persistent": CommandGetTopicsOfNamespace.NON_PERSISTENT,
    "all": CommandGetTopicsOfNamespace.ALL,
}
_MOST_REMEMBERED: Final = 16_384
"""Topics whose brokers are remembered at most, those looked up last."""


@lru_cache(_MOST_REMEMBERED)
def full_name(topic: str) -> str:
    """Returns the full form of a topic name. Raises InvalidTopicName."""
    return TopicName.parse(topic).full


def partition_names(topic: str, count: int) -> list[str]:
    """Returns the full names of the partitions of a topic; of the topic itself when it has none."""
    return list(_partition_names(topic, count))


@lru_cache(64)
def _partition_names(topic: str, count: int) -> tuple[str, ...]:
    name = TopicName.parse(topic)
    return tuple(name.at_partition(index).full for index in range(count)) if count else (name.full,)


class TopicDirectory:
    """Finds the broker of each topic and remembers it until a caller reports that it was wrong. Thread-safe."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._targets: dict[str, Target] = {}
        self.reader_types = ReaderTypes()

    def discard(self, topic: str) -> None:
        """Looks `topic` up again next time."""
        with self._lock:
            self._targets.pop(topic, None)

    def _remember(self, topic: str, target: Target) -> None:
        with self._lock:
            self._targets.pop(topic, None)
            self._targets[topic] = target
            if len(self._targets) > _MOST_REMEMBERED:
                self._targets.pop(next(iter(self._targets)))

    def connect(self, topic: str, deadline: Deadline) -> PipelinedRequest[Connection]:
        """Returns the shared connection to the broker of `topic` (a full name of one partition)."""
        target = yield from self.find(topic, deadline)
        try:
            return self._pool.shared(target, deadline)
        except BaseException:
            self.discard(topic)
            raise

    def find(self, topic: str, deadline: Deadline) -> PipelinedRequest[Target]:
        """Returns the broker of `topic`, following redirects.

        Raises retriable errors for the caller to retry; TooManyRedirects; TopicNotFound for a missing namespace.
        """
        with self._lock:
            known = self._targets.get(topic)
        if known is not None:
            return known
        target, connection = self._pool.service(deadline)
        service = target.address
        authoritative = False
        for _ in range(MAX_LOOKUP_REDIRECTS + 1):
            request_id = next_id()
            command = requests.lookup(request_id, topic, authoritative, self._pool.config.listener_name)
            response = (yield connection.start(command, request_id)).lookupTopicResponse
            broker = self._broker_of(response, f"lookup of {topic} at {target}")
            proxied = response.proxy_through_service_url and broker != service
            next_target = Target(service, str(broker)) if proxied else Target(broker)
            if response.response == CommandLookupTopicResponse.Connect:
                self._remember(topic, next_target)
                return next_target
            target, authoritative = next_target, response.authoritative
            connection = self._pool.shared(target, deadline)
        raise TooManyRedirects(f"lookup of {topic}: more than {MAX_LOOKUP_REDIRECTS} redirects, the last to {target}")

    def _broker_of(self, response: CommandLookupTopicResponse, what: str) -> Address:
        """Returns the broker that a lookup named, by its address for our kind of connection: bytes to be encrypted
        never go to another."""
        encrypted = self._pool.config.uses_tls
        url = response.brokerServiceUrlTls if encrypted else response.brokerServiceUrl
        if not url or uses_tls(url) != encrypted:
            raise UnexpectedReply(f"{what}: the broker gave no {'pulsar+ssl' if encrypted else 'pulsar'}:// address")
        return parse_service_url(url)[0]


def partition_count(pool: ConnectionPool, topic: str, create: bool, deadline: Deadline) -> PipelinedRequest[int]:
    """Returns the number of partitions of `topic`; 0 when it is not partitioned.

    With `create` a broker may create a missing topic with its default number of partitions. Without, a missing topic is
    TopicNotFound, if the broker knows how to say so (others answer 0). UnexpectedReply above MAX_PARTITIONS.
    """
    _, connection = pool.service(deadline)
    request_id = next_id()
    try:
        answer = yield connection.start(requests.partition_metadata(request_id, topic, create), request_id)
    except TopicNotFound as error:
        said = f"topic {topic} not found"
        repeats = error.message.lower().startswith(said.lower())
        raise TopicNotFound(said + (error.message[len(said) :] if repeats else f": {error.message}")) from None
    count: int = answer.partitionMetadataResponse.partitions
    if count > MAX_PARTITIONS:
        raise UnexpectedReply(f"topic {topic} has {count} partitions, says its broker: more than {MAX_PARTITIONS}")
    return count


def topics_of(pool: ConnectionPool, namespace: str, mode: TopicMode, deadline: Deadline) -> PipelinedRequest[list[str]]:
    """Full names of the topics of `tenant/namespace` as the broker lists them, every partition by itself."""
    _, connection = pool.service(deadline)
    request_id = next_id()
    answer = yield connection.start(requests.topics_of_namespace(request_id, namespace, _MODES[mode]), request_id)
    return list(answer.getTopicsOfNamespaceResponse.topics)
