"""Rules of authorization, with principals made by hand, and the audit log."""

import json
from typing import Any

import pytest

from spark_pulsar.broker.broker import COMMANDS
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.security import authorization
from spark_pulsar.broker.security.auditing import audit
from spark_pulsar.broker.security.commands import CHECKS
from spark_pulsar.ledger.state.documents import TENANTS, DocumentSet, NamespaceSet
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies.permissions import AUTH_POLICIES
from spark_pulsar.model.principals import UNAUTHENTICATED, Principal
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, ServerError
from tests.unit.broker.world import QUIET, Client, World

TOPIC = "persistent://own/space/t"
NAME = TopicName.parse(TOPIC)
PARTITION = TopicName.parse(f"{TOPIC}-partition-3")


def _world(permissions: dict[str, Any] | None = None, **config: Any) -> World:
    world = World(
        **{**QUIET, "authorization_enabled": True, "super_user_roles": ("root",), "proxy_roles": ("proxy",), **config}
    )

    def set_up(core: Core) -> None:
        core.append(DocumentSet(TENANTS, "own", json.dumps({"adminRoles": ["boss"], "allowedClusters": []})))
        core.append(DocumentSet(TENANTS, "other", json.dumps({"allowedClusters": []})))
        core.append(NamespaceSet("own/space", json.dumps({AUTH_POLICIES: permissions or {}})))
        core.append(NamespaceSet("other/space", "{}"))

    world.ask(set_up)
    return world


def _may(world: World, role: str, operation: str, name: TopicName = NAME, subscription: str | None = None) -> bool:
    return authorization.may_use_topic(world.core, Principal(role), operation, name, subscription)


def test_a_connection_without_a_role_may_do_nothing() -> None:
    # covers AU-7
    world = _world({"namespace_auth": {"": ["produce"]}})
    assert not authorization.may_use_topic(world.core, UNAUTHENTICATED, "LOOKUP", NAME)
    assert not authorization.is_super_user(world.core, UNAUTHENTICATED)


def test_actions_of_a_topic_hold_for_its_partitions_and_no_other_topic() -> None:
    # covers AU-9
    world = _world({"destination_auth": {TOPIC: {"maker": ["produce"]}, PARTITION.full: {"taker": ["consume"]}}})
    assert _may(world, "maker", "PRODUCE")
    assert _may(world, "maker", "PRODUCE", PARTITION)
    assert not _may(world, "maker", "PRODUCE", TopicName.parse("persistent://own/space/t2"))
    assert not _may(world, "maker", "PRODUCE", TopicName.parse("non-persistent://own/space/t"))
    assert _may(world, "taker", "CONSUME", PARTITION)
    assert not _may(world, "taker", "CONSUME")
    assert not authorization.may_use_namespace(world.core, Principal("maker"), "GET_TOPICS", "own/space")


def test_wildcards_count_where_they_are_on() -> None:
    # covers AU-9
    grants = {"namespace_auth": {"app-*": ["produce"]}, "destination_auth": {TOPIC: {"*-reader": ["consume"]}}}
    for is_on in (True, False):
        world = _world(grants, authorization_wildcards=is_on)
        assert _may(world, "app-1", "PRODUCE") is is_on
        assert _may(world, "my-reader", "CONSUME") is is_on
        assert not _may(world, "my-app-1", "PRODUCE")
        assert not _may(world, "app-1", "CONSUME")


def test_permissions_that_cannot_be_read_give_no_rights() -> None:
    # covers AU-9
    world = _world({"namespace_auth": {"maker": ["produce"]}, "destination_auth": "nonsense"})
    assert not _may(world, "maker", "PRODUCE")


def test_every_command_has_a_rule() -> None:
    # covers SEC-60
    assert set(CHECKS) == set(COMMANDS)


# ---- commands and open connections ------------------------------------------------------------------------------


def _connected(world: World, role: str) -> Client:
    client = world.connect()
    world.core.sessions[client.session_id].principal = Principal(role)
    return client


def _error(client: Client, command: BaseCommand) -> Any:
    return client.request(command, BaseCommand.ERROR)


def _grant(world: World, permissions: dict[str, Any]) -> None:
    world.set_policy(AUTH_POLICIES, permissions, namespace="own/space")


def _subscribe(client: Client, subscription: str = "s") -> BaseCommand:
    return requests.subscribe(client.request_id(), TOPIC, subscription, 1, CommandSubscribe.Shared)


def test_refused_commands_create_nothing_and_are_audited() -> None:
    # covers AU-9, SEC-64
    world = _world()
    client = _connected(world, "nobody")
    refused = _error(client, requests.producer(client.request_id(), TOPIC, 1))
    assert (refused.error, refused.message) == (
        ServerError.AuthorizationError,
        "Client is not authorized to Produce",
    )
    assert _error(client, _subscribe(client)).message == "Client is not authorized to subscribe"
    assert not world.core.topics
    assert not client.closed
    lines = [(line.role, line.action, line.resource, line.is_allowed) for line in world.audits[-2:]]
    assert lines == [("nobody", "PRODUCE", TOPIC, False), ("nobody", "CONSUME", TOPIC, False)]


def _opened(world: World, role: str) -> Client:
    client = _connected(world, role)
    client.request(requests.producer(client.request_id(), TOPIC, 1), BaseCommand.PRODUCER_SUCCESS)
    client.request(_subscribe(client), BaseCommand.SUCCESS)
    return client


BOTH = {"namespace_auth": {"app": ["produce", "consume"], "else": ["produce", "consume"]}}


@pytest.mark.parametrize(
    ("left", "closed"),
    [
        ({}, {BaseCommand.CLOSE_PRODUCER, BaseCommand.CLOSE_CONSUMER}),
        ({"namespace_auth": {"app": ["consume"]}}, {BaseCommand.CLOSE_PRODUCER}),
        ({"destination_auth": {TOPIC: {"app": ["produce"]}}}, {BaseCommand.CLOSE_CONSUMER}),
        ({**BOTH, "subscription_auth_roles": {"s": ["else"]}}, {BaseCommand.CLOSE_CONSUMER}),
        ({"namespace_auth": {"app": ["produce", "consume"]}}, set()),
    ],
)
def test_what_lost_its_permission_is_closed_at_once(left: dict[str, Any], closed: set[int]) -> None:
    # covers AU-9, SEC-65
    world = _world(BOTH)
    client = _opened(world, "app")
    _grant(world, left)
    assert {client.take().type for _ in list(client.effects)} == closed


def test_a_tenant_that_loses_its_administrator_closes_what_he_opened() -> None:
    # covers AU-8, SEC-65
    from spark_pulsar.broker.security import revocation

    world = _world()
    client = _opened(world, "boss")

    def dismiss(core: Core) -> None:
        core.append(DocumentSet(TENANTS, "own", json.dumps({"adminRoles": [], "allowedClusters": []})))
        revocation.close_revoked(core, "own")

    world.ask(dismiss)
    closed = {client.take().type for _ in list(client.effects)}
    assert closed == {BaseCommand.CLOSE_PRODUCER, BaseCommand.CLOSE_CONSUMER}


def test_non_persistent_topics_lose_theirs_too() -> None:
    # covers SEC-65
    world, topic = _world(BOTH), TOPIC.replace("persistent", "non-persistent")
    client = _connected(world, "app")
    client.request(requests.producer(client.request_id(), topic, 1), BaseCommand.PRODUCER_SUCCESS)
    _grant(world, {})
    client.expect(BaseCommand.CLOSE_PRODUCER)


def test_a_producer_that_waits_is_refused_when_its_role_lost_the_permission() -> None:
    # covers SEC-65
    world = _world(BOTH)
    holder, waiter = _connected(world, "else"), _connected(world, "app")
    _exclusive(holder, wait=False)
    holder.expect(BaseCommand.PRODUCER_SUCCESS)
    _exclusive(waiter, wait=True)
    assert not waiter.expect(BaseCommand.PRODUCER_SUCCESS).producer_ready
    _grant(world, {"namespace_auth": {"else": ["produce"]}})
    holder.close()
    assert waiter.expect(BaseCommand.ERROR).error == ServerError.AuthorizationError


def _exclusive(client: Client, *, wait: bool) -> None:
    command = requests.producer(client.request_id(), TOPIC, 1)
    command.producer.producer_access_mode = 2 if wait else 1  # type: ignore[assignment]
    client.send(command)


def test_the_key_turns_it_off() -> None:
    # covers SEC-20
    world = World(audit_log=False)
    session = world.core.sessions[world.connect().session_id]
    world.ask(lambda core: audit(core, session, "produce", "t", is_allowed=True))
    assert not world.audits
