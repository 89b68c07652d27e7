"""Key stores of Java, as keytool writes them, in connections under TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_pulsar.client.authentication.plugins import KEY_STORE_TLS, Authentication
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.tls import TlsConfig
from spark_pulsar.client.errors import TlsError
from spark_pulsar.client.key_stores import TYPES, KeyStore
from spark_pulsar.client.secret import Secret
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.security.certificates import Authority
from tests.security.key_stores import PASSWORD, key_store, trust_store
from tests.unit.client.connections.test_tls import SecuredPeer

TOPIC = "persistent://public/default/t"


class Stores:
    """A trust store and a key store of one type."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.authority = Authority(directory)
        files = self.authority.issue("client.test", common_name="me")
        self.trust = trust_store(kind, self.authority.path, directory / "trust.store")
        self.key = key_store(kind, files, directory / "key.store")


@pytest.fixture(scope="module", params=TYPES)
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(request.param, tmp_path_factory.mktemp("stores"))


@pytest.fixture
def peer(stores: Stores) -> Iterator[SecuredPeer]:
    """One that requests a certificate of clients."""
    one = SecuredPeer(*stores.authority.issue("127.0.0.1"))
    one.context.verify_mode = ssl.CERT_REQUIRED
    one.context.load_verify_locations(stores.authority.path)
    yield one
    one.close()


@pytest.mark.parametrize("by_authentication", [False, True])
def test_stores_are_trusted_and_shown(
    stores: Stores, peer: SecuredPeer, client_of: Callable[..., PulsarClient], by_authentication: bool
) -> None:
    # covers SEC-89
    trust = KeyStore(str(stores.trust), Secret(PASSWORD))
    if by_authentication:
        params = f"keyStoreType:{stores.kind},keyStorePath:{stores.key},keyStorePassword:{PASSWORD}"
        tls, authentication = TlsConfig(trust_store=trust), Authentication(KEY_STORE_TLS, Secret(params))
    else:
        tls = TlsConfig(trust_store=trust, key_store=KeyStore(str(stores.key), Secret(PASSWORD)))
        authentication = Authentication()
    assert client_of(peer.url, tls=tls, authentication=authentication).partition_count(TOPIC) == 0
    assert peer.of(BaseCommand.CONNECT)[0].connect.auth_method_name == ("tls" if by_authentication else "none")
    with pytest.raises(TlsError, match="certificate required"):
        client_of(peer.url, tls=TlsConfig(trust_store=trust)).partition_count(TOPIC)


def test_a_wrong_password_and_a_damaged_file_are_errors(stores: Stores, tmp_path: Path) -> None:
    # covers SEC-89
    damaged = tmp_path / "damaged"
    data = bytearray(stores.trust.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    text = tmp_path / "text"
    text.write_text("-----BEGIN CERTIFICATE-----")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for path, password, reason in (
        (stores.trust, "wrong", "cannot be opened: .*assword"),
        (damaged, PASSWORD, "cannot be opened"),
        (text, PASSWORD, "no key store of the types JKS and PKCS12"),
        (tmp_path / "none", PASSWORD, "cannot be read: No such file"),
        (stores.key, PASSWORD, "no certificate of an authority"),
    ):
        with pytest.raises(TlsError, match=reason) as caught:
            KeyStore(str(path), Secret(password)).trust(context)
        assert str(path) in str(caught.value)
        assert PASSWORD not in str(caught.value)
    with pytest.raises(TlsError, match="0 private keys, and one is expected"):
        KeyStore(str(stores.trust), Secret(PASSWORD)).show(context)
