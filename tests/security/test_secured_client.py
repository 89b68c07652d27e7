"""The wire client on a secured Apache Pulsar: who gets in, and how, and for how long."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_pulsar.client.authentication.plugins import Authentication
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.tls import TlsConfig
from spark_pulsar.client.errors import TlsError
from spark_pulsar.client.secret import Secret
from spark_pulsar.model.errors import AuthenticationError, AuthorizationError
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.eventually import eventually
from tests.security.secured_pulsar import (
    BASIC_PLUGIN,
    HOST,
    LISTENER,
    OAUTH2_PLUGIN,
    PASSWORD,
    ROLE,
    STRANGER,
    TLS_PLUGIN,
    TOKEN_PLUGIN,
    USER,
    SecuredPulsar,
)
from tests.security.sni_proxy import sni_proxy
from tests.unit.client.authentication.issuer import Issuer, key_file

_numbers = itertools.count()
Connect = Callable[..., PulsarClient]


@pytest.fixture
def connect(secured: SecuredPulsar) -> Iterator[Connect]:
    """Makes clients by plugin and parameters; they trust the broker's authority and end with the test."""
    clients: list[PulsarClient] = []

    def make(plugin: str = "", params: str = "", url: str | None = None, **settings: Any) -> PulsarClient:
        settings = {"tls": TlsConfig(trust_certs_file_path=str(secured.authority.path))} | settings
        authentication = Authentication(plugin, Secret(params))
        clients.append(
            PulsarClient(ClientConfig(url or secured.service_url, authentication=authentication, **settings))
        )
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def issuer(secured: SecuredPulsar) -> Iterator[Issuer]:
    """An OAuth 2.0 issuer whose tokens the broker knows."""
    one = Issuer()
    one.make_token = lambda: secured.issuer.token(ROLE, one.lives_s)
    yield one
    one.close()


def round_trip(client: PulsarClient) -> None:
    """Publishes a message to a new topic and reads it back."""
    topic = f"persistent://public/default/secured-{next(_numbers)}"
    with client.publisher(topic) as publisher:
        publisher.send(MessageMetadata(publish_time=1), b"hello")
    (end,) = client.end_positions([topic]).values()
    assert (end.entry_id, end.partition) == (1, -1)


def test_a_token_over_tls(secured: SecuredPulsar, connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(secured.issuer.token(ROLE))
    round_trip(connect(TOKEN_PLUGIN, path.as_uri()))
    round_trip(connect(TOKEN_PLUGIN, path.as_uri(), secured.plain_url))


def test_a_user_and_a_password(connect: Connect) -> None:
    round_trip(connect(BASIC_PLUGIN, json.dumps({"userId": USER, "password": PASSWORD})))
    with pytest.raises(AuthenticationError, match="Failed to authenticate") as caught:
        round_trip(connect(BASIC_PLUGIN, json.dumps({"userId": USER, "password": "n0t-this"})))
    assert "n0t-this" not in str(caught.value)


def test_a_certificate(secured: SecuredPulsar, connect: Connect) -> None:
    certificate, key = secured.authority.issue("client.test", common_name=ROLE)
    round_trip(connect(TLS_PLUGIN, f"tlsCertFile:{certificate},tlsKeyFile:{key}"))
    own = TlsConfig(str(secured.authority.path), certificate_file_path=str(certificate), key_file_path=str(key))
    round_trip(connect(TLS_PLUGIN, tls=own))


def test_oauth2(connect: Connect, issuer: Issuer, tmp_path: Path) -> None:
    round_trip(connect(OAUTH2_PLUGIN, issuer.params(key_file(tmp_path), audience="urn:pulsar")))
    assert issuer.asked[0]["audience"] == "urn:pulsar"


def test_nobody_gets_in_without_credentials_nor_does_a_stranger(secured: SecuredPulsar, connect: Connect) -> None:
    with pytest.raises(AuthenticationError):
        round_trip(connect())
    with pytest.raises(AuthorizationError):
        round_trip(connect(TOKEN_PLUGIN, f"token:{secured.issuer.token(STRANGER)}"))
    with pytest.raises(AuthenticationError):
        round_trip(connect(TOKEN_PLUGIN, f"token:{secured.issuer.token(ROLE, lives_s=-10)}"))


def test_a_broker_must_be_the_one_that_its_certificate_names(secured: SecuredPulsar, connect: Connect) -> None:
    token = f"token:{secured.issuer.token(ROLE)}"
    with pytest.raises(TlsError, match="tlsTrustCertsFilePath"):
        round_trip(connect(TOKEN_PLUGIN, token, tls=TlsConfig()))
    round_trip(connect(TOKEN_PLUGIN, token, tls=TlsConfig(allow_insecure_connection=True)))


def test_a_connection_outlives_its_token(connect: Connect, issuer: Issuer, tmp_path: Path) -> None:
    issuer.lives_s = 3
    client = connect(OAUTH2_PLUGIN, issuer.params(key_file(tmp_path)))
    with client.publisher("persistent://public/default/outlives") as publisher:
        publisher.send(MessageMetadata(publish_time=1), b"first")
        publisher.flush()
        line = publisher._line
        tokens = len(issuer.asked)
        eventually(lambda: len(issuer.asked) >= tokens + 2, timeout_s=60)
        publisher.send(MessageMetadata(publish_time=2), b"second")
        publisher.flush()
        assert publisher._line is line, "the connection was made anew"


def test_listeners_and_sni_proxies(secured: SecuredPulsar, connect: Connect) -> None:
    token = f"token:{secured.issuer.token(ROLE)}"
    with sni_proxy({HOST: ("127.0.0.1", secured.port)}) as proxy:
        through = connect(
            TOKEN_PLUGIN, token, f"pulsar+ssl://{HOST}:6651", listener_name=LISTENER, sni_proxy_url=proxy.url
        )
        round_trip(through)
        assert set(proxy.names) == {HOST}
        through.close()
