"""Authentication of sessions in the core: handshake, proxies, refresh."""

from typing import Any

import pytest

from spark_pulsar.broker.turn.effects import Authenticate
from spark_pulsar.broker.turn.events import AuthenticationRefused, SessionAuthenticated
from spark_pulsar.model.principals import Principal
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, FeatureFlags, ServerError
from tests.unit.broker.world import QUIET, START_MS, TOPIC, Client, World

REFRESH = FeatureFlags(supports_auth_refresh=True)
CHECK_MS = 2_000


def _world(**config: Any) -> World:
    return World(**{**QUIET, "authentication_enabled": True, "authentication_refresh_check_ms": CHECK_MS, **config})


def _ordered(client: Client) -> Authenticate:
    """The order of a check, which is all that came."""
    (effect,) = client.take_all()
    assert isinstance(effect, Authenticate), effect
    return effect


def _accept(client: Client, order: Authenticate, role: str, expires_ms: int | None = None) -> None:
    client.world.happen([SessionAuthenticated(client.session_id, order.number, role, expires_ms)])


def _refused(client: Client) -> ServerError.ValueType:
    """Code of the ERROR that came before the end of the connection."""
    error = client.expect(BaseCommand.ERROR)
    assert error.request_id == commands.NO_REQUEST
    assert client.closed
    return int(error.error)


def _connected(world: World, expires_ms: int | None = None, features: FeatureFlags | None = REFRESH) -> Client:
    client = world.open_socket()
    client.send(requests.connect("test", "token", b"good", features=features))
    _accept(client, _ordered(client), "u", expires_ms)
    client.expect(BaseCommand.CONNECTED)
    return client


def _proxied(world: World, **fields: Any) -> Client:
    client = world.open_socket()
    connect = requests.connect("test", "token", b"of the proxy", features=REFRESH)
    for name, value in fields.items():
        setattr(connect.connect, name, value)
    client.send(connect)
    return client


def test_connect_waits_for_the_role_of_its_credentials() -> None:
    # covers AU-1
    client = _world().open_socket()
    client.send(requests.connect("test", "token", b"good"))
    order = _ordered(client)
    assert (order.method, order.data, order.is_forwarded) == ("token", b"good", False)
    assert "good" not in repr(order)  # covers AU-12
    client.request(commands.ping(), BaseCommand.PONG)
    assert not client.closed
    _accept(client, order, "u")
    client.expect(BaseCommand.CONNECTED)
    assert client.world.core.sessions[client.session_id].principal == Principal("u")
    client.open_producer()
    (line,) = client.world.audits
    assert (line.role, line.action, line.resource, line.is_allowed) == ("u", "authenticate", "token", True)


def test_refused_credentials_are_answered_and_end_the_connection() -> None:
    # covers AU-1
    client = _world().open_socket()
    client.send(requests.connect("test", "token", b"bad"))
    client.world.happen([AuthenticationRefused(client.session_id, _ordered(client).number, "too old")])
    assert _refused(client) == ServerError.AuthenticationError
    (line,) = client.world.audits
    assert (line.role, line.is_allowed, line.reason) == (None, False, "too old")
    client.close()
    assert not client.world.core.sessions


@pytest.mark.parametrize(("legacy", "method"), [(None, "none"), (0, "none"), (1, "ycav1")])
def test_method_of_old_clients_is_a_number(legacy: Any, method: str) -> None:
    client = _world().open_socket()
    connect = requests.connect("test")
    connect.connect.ClearField("auth_method_name")
    if legacy is not None:
        connect.connect.auth_method = legacy
    client.send(connect)
    assert _ordered(client).method == method


def test_handshake_that_is_not_authenticated_in_time_ends() -> None:
    world = _world(handshake_timeout_ms=1_000)
    client = world.open_socket()
    client.send(requests.connect("test", "basic", b"slow"))
    world.advance(1_000)
    assert client.closed


def test_answers_of_a_session_that_is_gone_are_dropped() -> None:
    client = _world().open_socket()
    client.send(requests.connect("test", "token", b"good"))
    order = _ordered(client)
    client.close()
    _accept(client, order, "u")
    client.world.happen([AuthenticationRefused(client.session_id, order.number, "late")])
    assert not client.take_all()


# Proxies


def test_proxy_is_believed_what_it_says_of_its_client() -> None:
    # covers AU-10
    client = _proxied(_world(), original_principal="u", original_auth_data="x", original_auth_method="token")
    _accept(client, _ordered(client), "proxy")
    client.expect(BaseCommand.CONNECTED)
    assert client.world.core.sessions[client.session_id].principal == Principal("proxy", "u")


def test_empty_original_principal_is_none() -> None:
    # covers AU-10
    client = _proxied(_world(), original_principal="")
    _accept(client, _ordered(client), "u")
    assert client.world.core.sessions[client.session_id].principal == Principal("u")


# Refresh


def test_client_that_cannot_refresh_is_closed_at_the_first_check() -> None:
    # covers AU-3
    world = _world()
    client = _connected(world, START_MS + 100, features=None)
    world.advance(CHECK_MS - 1)
    assert not client.closed
    world.advance(1)
    assert client.closed


def test_credentials_without_end_are_never_asked_for_again() -> None:
    # covers AU-3
    world = _world()
    client = _connected(world)
    world.advance(100 * CHECK_MS)
    assert not client.take_all()


@pytest.mark.parametrize("second", [requests.lookup(1, TOPIC), requests.connect("again", "token", b"good")])
def test_commands_before_the_role_is_known_end_the_connection(second: BaseCommand) -> None:
    client = _world().open_socket()
    client.send(requests.connect("test", "token", b"good"), second)
    assert client.closed
    order = client.take_all()[0]
    _accept(client, order, "u")  # too late
    assert not client.take_all()


def test_response_without_credentials_ends_the_connection() -> None:
    client = _connected(_world())
    client.send(BaseCommand(type=BaseCommand.AUTH_RESPONSE, authResponse={}))
    assert client.closed
