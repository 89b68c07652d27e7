"""Authorization of binary commands: the operation that each requires, and Apache Pulsar's words of refusal (AU-9,
SEC-60, SEC-64)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.model.errors import AuthorizationError
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

from . import authorization
from .auditing import audit

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.wire.pulsar_api_pb2 import CommandProducer, CommandSubscribe

Check = Callable[["Core", "Session", Any], None]


def _topic_check(operation: str, words: str) -> Check:
    def check(core: Core, session: Session, command: Any) -> None:
        _check_topic(core, session, operation, command.topic, words)

    return check


def _check_topic(
    core: Core, session: Session, operation: str, topic: str, words: str, subscription: str | None = None
) -> None:
    name = TopicName.parse(topic)
    try:
        is_allowed = authorization.may_use_topic(core, session.principal, operation, name, subscription)
    except AuthorizationError as error:
        audit(core, session, operation, name.full, is_allowed=False, reason=error.message)
        raise
    if not is_allowed:
        raise _refused(core, session, operation, name.full, words)


_MAY_NOT_PRODUCE: Final = "Client is not authorized to Produce"


def _check_producer(core: Core, session: Session, command: CommandProducer) -> None:
    """Checks a producer, and the subscription that it may make before its first message (PR-18)."""
    _check_topic(core, session, "PRODUCE", command.topic, _MAY_NOT_PRODUCE)
    if command.initial_subscription_name:
        subscription = command.initial_subscription_name
        _check_topic(core, session, "SUBSCRIBE", command.topic, _MAY_NOT_PRODUCE, subscription)


def _check_consumer(core: Core, session: Session, command: CommandSubscribe) -> None:
    words = "Client is not authorized to subscribe"
    _check_topic(core, session, "CONSUME", command.topic, words, command.subscription)


def _namespace_check(operation: str, words: str) -> Check:
    def check(core: Core, session: Session, command: Any) -> None:
        if not authorization.may_use_namespace(core, session.principal, operation, command.namespace):
            raise _refused(core, session, operation, command.namespace, words)

    return check


def _refused(core: Core, session: Session, operation: str, resource: str, words: str) -> AuthorizationError:
    audit(core, session, operation, resource, is_allowed=False, reason="no permission")
    return AuthorizationError(words)


def _allowed(_core: Core, _session: Session, _command: object) -> None:
    """Refuses nothing: the command is about the connection, or about what an earlier command has opened."""


CHECKS: Final[Mapping[int, Check]] = {
    BaseCommand.CONNECT: _allowed,
    BaseCommand.PING: _allowed,
    BaseCommand.PONG: _allowed,
    BaseCommand.AUTH_RESPONSE: _allowed,
    BaseCommand.LOOKUP: _topic_check("LOOKUP", "Client is not authorized to Lookup"),
    BaseCommand.PARTITIONED_METADATA: _topic_check("LOOKUP", "Client is not authorized to Get Partition Metadata"),
    BaseCommand.GET_TOPICS_OF_NAMESPACE: _namespace_check(
        "GET_TOPICS", "Client is not authorized to GetTopicsOfNamespace"
    ),
    BaseCommand.PRODUCER: _check_producer,
    BaseCommand.CLOSE_PRODUCER: _allowed,
    BaseCommand.SUBSCRIBE: _check_consumer,
    BaseCommand.FLOW: _allowed,
    BaseCommand.UNSUBSCRIBE: _allowed,
    BaseCommand.CLOSE_CONSUMER: _allowed,
    BaseCommand.ACK: _allowed,
    BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: _allowed,
    BaseCommand.SEEK: _allowed,
    BaseCommand.GET_LAST_MESSAGE_ID: _allowed,
    BaseCommand.CONSUMER_STATS: _allowed,
    BaseCommand.WATCH_TOPIC_LIST: _namespace_check("GET_TOPICS", "Proxy Client is not authorized to watchTopicList"),
    BaseCommand.WATCH_TOPIC_LIST_CLOSE: _allowed,
    BaseCommand.GET_SCHEMA: _topic_check("LOOKUP", "Client is not authorized to get the schema"),
    BaseCommand.GET_OR_CREATE_SCHEMA: _topic_check("PRODUCE", "Client is not authorized to create the schema"),
    BaseCommand.TC_CLIENT_CONNECT_REQUEST: _allowed,
    BaseCommand.NEW_TXN: _allowed,
    BaseCommand.ADD_PARTITION_TO_TXN: _allowed,
    BaseCommand.ADD_SUBSCRIPTION_TO_TXN: _allowed,
    BaseCommand.END_TXN: _allowed,
    BaseCommand.END_TXN_ON_PARTITION: _allowed,
    BaseCommand.END_TXN_ON_SUBSCRIPTION: _allowed,
}
"""Checks of all commands. Those of a consumer need SUBSCRIBE first. (Apache Pulsar lets every role read and make
schemas, SEC-61.) Transactions are their owner's (TX-25); their SENDs and ACKs need a producer or consumer."""
