"""Who serves a topic, what topics there are, and how many partitions they have."""

from typing import Final, Literal

from spark_pulsar.client.config import ClientConfig, parse_service_url
from spark_pulsar.client.connection import Connection, next_id
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import TooManyRedirects, UnexpectedReply
from spark_pulsar.client.pool import ConnectionPool, Target
from spark_pulsar.model.errors import ServerError, error_from_wire
from spark_pulsar.model.limits import MAX_LOOKUP_REDIRECTS
from spark_pulsar.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandGetTopicsOfNamespace,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
)

TopicMode = Literal["persistent", "non-persistent", "all"]
_MODES: Final = {
    "persistent": CommandGetTopicsOfNamespace.PERSISTENT,
    "non-persistent": CommandGetTopicsOfNamespace.NON_PERSISTENT,
    "all": CommandGetTopicsOfNamespace.ALL,
}


def find_broker(pool: ConnectionPool, config: ClientConfig, topic: str, deadline: Deadline) -> Target:
    """The broker that serves `topic` (full name, one partition), following redirects.

    One attempt: raises ConnectionLost and retriable errors for the caller to retry; TooManyRedirects;
    TopicNotFound for a missing namespace.
    """
    target, connection = pool.service(deadline)
    service = target.address
    authoritative = False
    for _ in range(MAX_LOOKUP_REDIRECTS + 1):
        response = _look_up(connection, config, topic, authoritative, deadline)
        if response.response == CommandLookupTopicResponse.Failed:
            error = ServerError.UnknownError if not response.HasField("error") else response.error
            raise error_from_wire(error, f"lookup of {topic} at {target}: {response.message or 'failed'}")
        if not response.brokerServiceUrl:
            raise UnexpectedReply(f"lookup of {topic} at {target}: the broker gave no pulsar:// address")
        broker = parse_service_url(response.brokerServiceUrl)[0]
        proxied = response.proxy_through_service_url and broker != service
        found = Target(service, str(broker)) if proxied else Target(broker)
        if response.response == CommandLookupTopicResponse.Connect:
            return found
        target, authoritative = found, response.authoritative
        connection = pool.shared(target, deadline)
    raise TooManyRedirects(f"lookup of {topic}: more than {MAX_LOOKUP_REDIRECTS} redirects, the last to {target}")


def _look_up(
    connection: Connection, config: ClientConfig, topic: str, authoritative: bool, deadline: Deadline
) -> CommandLookupTopicResponse:
    command = BaseCommand(type=BaseCommand.LOOKUP)
    lookup = command.lookupTopic
    lookup.topic = topic
    lookup.request_id = next_id()
    lookup.authoritative = authoritative
    if config.listener_name:
        lookup.advertised_listener_name = config.listener_name
    return connection.request(command, lookup.request_id, deadline).lookupTopicResponse


def partition_count(connection: Connection, topic: str, create: bool, deadline: Deadline) -> int:
    """How many partitions `topic` has; 0 when it is not partitioned.

    With `create` a broker may create a missing topic with its default number of partitions. Without, a missing topic is
    TopicNotFound, if the broker knows how to say so (others answer 0).
    """
    command = BaseCommand(type=BaseCommand.PARTITIONED_METADATA)
    question = command.partitionMetadata
    question.topic = topic
    question.request_id = next_id()
    question.metadata_auto_creation_enabled = create
    answer = connection.request(command, question.request_id, deadline).partitionMetadataResponse
    if answer.response == CommandPartitionedTopicMetadataResponse.Failed or answer.HasField("error"):
        error = answer.error if answer.HasField("error") else ServerError.UnknownError
        raise error_from_wire(error, answer.message or f"{topic} was not found at {connection.address}")
    return answer.partitions


def topics_of(connection: Connection, namespace: str, mode: TopicMode, deadline: Deadline) -> list[str]:
    """Full names of the topics of `tenant/namespace` as the broker lists them, every partition by itself."""
    command = BaseCommand(type=BaseCommand.GET_TOPICS_OF_NAMESPACE)
    question = command.getTopicsOfNamespace
    question.namespace = namespace
    question.request_id = next_id()
    question.mode = _MODES[mode]
    answer = connection.request(command, question.request_id, deadline).getTopicsOfNamespaceResponse
    return list(answer.topics)


