"""Revocation: producers and consumers of roles that lost a permission are closed at once (AU-9, SEC-65)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.entities import producer as producers
from spark_pulsar.broker.entities import registry
from spark_pulsar.model.errors import AuthorizationError
from spark_pulsar.model.names import NON_PERSISTENT, PERSISTENT
from spark_pulsar.wire.protocol import commands

from . import authorization
from .auditing import audit

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.model.policies.permissions import Permissions


def begin(core: Core) -> None:
    """Watches the policies of namespaces from now on, where authorization is on."""
    if not core.config.authorization_enabled:
        return
    known: dict[str, tuple[Permissions, str]] = {}

    def changed(namespace: str, topic: str | None) -> None:
        if topic is not None:  # topics have no permissions in their own policies
            return
        access = authorization.permissions_of(core, namespace), authorization.auth_mode_of(core, namespace)
        if known.get(namespace) != access:
            known[namespace] = access
            close_revoked(core, namespace)
        if namespace not in core.state.namespaces:
            del known[namespace]

    core.policies.watch(changed)


def close_revoked(core: Core, namespace: str) -> None:
    """Closes the producers and consumers in a namespace, or a tenant, whose roles may not have them any more. Their
    clients are refused when they come back."""
    if not core.config.authorization_enabled:
        return
    tenant, separator, _ = namespace.partition("/")
    named = [namespace] if separator else [name for name in core.state.namespaces if name.startswith(f"{tenant}/")]
    for name in named:
        for domain in (PERSISTENT, NON_PERSISTENT):
            for full_name in registry.full_names_in(core, domain, tenant, name.partition("/")[2]):
                topic = core.topics.get(full_name)
                if topic is not None:
                    _close_revoked(core, topic)


def _close_revoked(core: Core, topic: Topic) -> None:
    for producer in list(topic.producers.values()):
        if not may_produce(core, producer.session, topic):
            audit(core, producer.session, "PRODUCE", topic.full_name, is_allowed=False, reason="revoked")
            producers.disconnect_after_receipts(core, producer)
    for subscription in list(topic.subscriptions.values()):
        for consumer in list(subscription.consumers):
            if not may_consume(core, consumer.session, topic, subscription.name):
                audit(core, consumer.session, "CONSUME", topic.full_name, is_allowed=False, reason="revoked")
                core.send(consumer.session, commands.close_consumer(consumer.consumer_id))
                subscription.remove(consumer)


def may_produce(core: Core, session: Session, topic: Topic) -> bool:
    """Returns whether the role of a session may have a producer of a topic."""
    return not core.config.authorization_enabled or authorization.may_use_topic(
        core, session.principal, "PRODUCE", topic.name
    )


def may_consume(core: Core, session: Session, topic: Topic, subscription: str) -> bool:
    """Returns whether the role of a session may have a consumer of a subscription."""
    if not core.config.authorization_enabled:
        return True
    try:
        return authorization.may_use_topic(core, session.principal, "CONSUME", topic.name, subscription)
    except AuthorizationError:
        return False
