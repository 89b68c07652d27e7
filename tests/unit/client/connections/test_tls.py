"""Encrypted connections: who is trusted, which name is asked for, and two threads on one connection."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_pulsar.client.authentication.plugins import KEY_STORE_TLS, Authentication
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.streams import TlsStream
from spark_pulsar.client.connections.tls import TlsConfig
from spark_pulsar.client.errors import OperationTimeout, TlsError, UnexpectedReply
from spark_pulsar.client.key_stores import TYPES, KeyStore
from spark_pulsar.client.secret import Secret
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.security.certificates import Authority
from tests.security.key_stores import PASSWORD, key_store, trust_store
from tests.unit.client.peer import Peer

MakeClient = Callable[..., PulsarClient]
TOPIC = "persistent://public/default/t"


class SecuredPeer(Peer):
    """A scripted broker under TLS. `names` are those that clients asked for in the handshake (SNI)."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self.names: list[str | None] = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.context.sni_callback = lambda _, name, __: self.names.append(name)
        super().__init__(self.context)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def trust(authority: Authority) -> TlsConfig:
    """Settings that trust the authority."""
    return TlsConfig(trust_certs_file_path=str(authority.path))


@pytest.fixture
def peer(authority: Authority) -> Iterator[SecuredPeer]:
    """One that has a certificate for 127.0.0.1 and broker-1.pulsar.test."""
    one = SecuredPeer(*authority.issue("127.0.0.1", "broker-1.pulsar.test"))
    yield one
    one.close()


def test_a_broker_with_a_trusted_certificate(peer: SecuredPeer, trust: TlsConfig, client_of: MakeClient) -> None:
    with client_of(peer.url, tls=trust) as client:
        assert client.partition_count(TOPIC) == 0
        assert client.end_positions([TOPIC])


def test_nobody_is_trusted_without_their_authority(peer: SecuredPeer, client_of: MakeClient) -> None:
    with pytest.raises(TlsError, match=r"certificate of 127.0.0.1:\d+ is not accepted: .*tlsTrustCertsFilePath"):
        client_of(peer.url).partition_count(TOPIC)


def test_a_certificate_for_another_host_is_refused(
    authority: Authority, trust: TlsConfig, client_of: MakeClient
) -> None:
    peer = SecuredPeer(*authority.issue("elsewhere.pulsar.test"))
    try:
        with pytest.raises(TlsError, match=r"mismatch.*tlsHostnameVerificationEnable"):
            client_of(peer.url, tls=trust).partition_count(TOPIC)
        unchecked = TlsConfig(trust_certs_file_path=str(authority.path), hostname_verification_enable=False)
        assert client_of(peer.url, tls=unchecked).partition_count(TOPIC) == 0
        assert client_of(peer.url, tls=TlsConfig(allow_insecure_connection=True)).partition_count(TOPIC) == 0
    finally:
        peer.close()


@pytest.mark.parametrize("by_authentication", [False, True])
def test_a_client_shows_its_certificate(
    peer: SecuredPeer, authority: Authority, client_of: MakeClient, by_authentication: bool
) -> None:
    peer.context.verify_mode = ssl.CERT_REQUIRED
    peer.context.load_verify_locations(authority.path)
    certificate, key = (str(path) for path in authority.issue("client.test", common_name="me"))
    trusted = str(authority.path)
    if by_authentication:
        params = Secret(f"tlsCertFile:{certificate},tlsKeyFile:{key}")
        tls, authentication = TlsConfig(trusted), Authentication("tls", params)
    else:
        tls = TlsConfig(trusted, certificate_file_path=certificate, key_file_path=key)
        authentication = Authentication()
    assert client_of(peer.url, tls=tls, authentication=authentication).partition_count(TOPIC) == 0
    assert peer.of(BaseCommand.CONNECT)[0].connect.auth_method_name == ("tls" if by_authentication else "none")
    with pytest.raises(TlsError, match="certificate required"):
        client_of(peer.url, tls=TlsConfig(trusted)).partition_count(TOPIC)


def test_a_port_without_tls(client_of: MakeClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def answer() -> None:
            sock, _ = plain.accept()
            with sock:
                sock.recv(1)
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(TlsError, match=r"no TLS with 127.0.0.1:\d+, is it the broker's TLS port\?"):
            client_of(f"pulsar+ssl://127.0.0.1:{plain.getsockname()[1]}").partition_count(TOPIC)
        thread.join()


def test_the_next_host_is_tried_when_one_fails_at_tls(
    peer: SecuredPeer, authority: Authority, trust: TlsConfig, client_of: MakeClient
) -> None:
    wrong = SecuredPeer(*authority.issue("elsewhere.pulsar.test"))
    try:
        both = f"pulsar+ssl://127.0.0.1:{wrong.port},127.0.0.1:{peer.port}"
        assert client_of(both, tls=trust).partition_count(TOPIC) == 0
        twice = f"pulsar+ssl://127.0.0.1:{wrong.port},localhost:{wrong.port}"
        with pytest.raises(TlsError, match=r"127.0.0.1:\d+ is not accepted.*; .*localhost:\d+ is not accepted"):
            client_of(twice, tls=trust).partition_count(TOPIC)
    finally:
        wrong.close()


def test_a_peer_that_never_shakes_hands(client_of: MakeClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"pulsar+ssl://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(OperationTimeout, match="no answer within"):
            client_of(url, connect_timeout_ms=100, operation_timeout_ms=500).partition_count(TOPIC)


def test_lookups_lead_to_the_brokers_tls_address(peer: SecuredPeer, trust: TlsConfig, client_of: MakeClient) -> None:
    nowhere = "pulsar://127.0.0.1:1"
    peer.answer(BaseCommand.LOOKUP, lambda asked: commands.lookup_connect(asked.request_id, nowhere, peer.url))
    assert client_of(peer.url, tls=trust).end_positions([TOPIC])
    peer.answer(BaseCommand.LOOKUP, lambda asked: commands.lookup_connect(asked.request_id, nowhere))
    with pytest.raises(UnexpectedReply, match=r"gave no pulsar\+ssl:// address"):
        client_of(peer.url, tls=trust).end_positions([TOPIC])


def test_lookups_name_the_listener(peer: SecuredPeer, trust: TlsConfig, client_of: MakeClient) -> None:
    client_of(peer.url, tls=trust, listener_name="outside").end_positions([TOPIC])
    client_of(peer.url, tls=trust).end_positions([TOPIC])
    named, unnamed = peer.of(BaseCommand.LOOKUP)
    assert named.lookupTopic.advertised_listener_name == "outside"
    assert not unnamed.lookupTopic.HasField("advertised_listener_name")


def test_a_proxy_is_told_the_broker_by_sni(peer: SecuredPeer, trust: TlsConfig, client_of: MakeClient) -> None:
    service = "pulsar+ssl://broker-1.pulsar.test"
    peer.answer(BaseCommand.LOOKUP, lambda asked: commands.lookup_connect(asked.request_id, "", service))
    client = client_of(service, tls=trust, sni_proxy_url=peer.url)
    assert client.end_positions([TOPIC])
    assert set(peer.names) == {"broker-1.pulsar.test"}
    assert not peer.of(BaseCommand.CONNECT)[0].connect.HasField("proxy_to_broker_url")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"trust_certs_file_path": "/nowhere.pem"}, "tlsTrustCertsFilePath '/nowhere.pem' is no readable file"),
        ({"certificate_file_path": "/c.pem", "key_file_path": "/k.pem"}, "tlsCertificateFilePath '/c.pem' with"),
    ],
)
def test_files_that_are_missing_are_named(
    peer: SecuredPeer, client_of: MakeClient, settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(TlsError, match=reason):
        client_of(peer.url, tls=TlsConfig(**settings)).partition_count(TOPIC)


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="both tlsCertificateFilePath and tlsKeyFilePath"):
        TlsConfig(certificate_file_path="/c.pem")
    with pytest.raises(ValueError, match="needs TLS"):
        ClientConfig("pulsar://a", authentication=Authentication("tls", Secret("tlsCertFile:/c,tlsKeyFile:/k")))
    with pytest.raises(ValueError, match="name another certificate"):
        ClientConfig(
            "pulsar+ssl://a",
            authentication=Authentication("tls", Secret("tlsCertFile:/c,tlsKeyFile:/k")),
            tls=TlsConfig(certificate_file_path="/other", key_file_path="/k"),
        )
    with pytest.raises(ValueError, match="needs one"):
        ClientConfig("pulsar+ssl://a", authentication=Authentication("tls"))
    with pytest.raises(ValueError, match="needs TLS"):
        ClientConfig("pulsar://a", sni_proxy_url="pulsar+ssl://proxy")


def test_one_thread_reads_while_another_writes(authority: Authority, trust: TlsConfig) -> None:
    """Megabytes in both directions at once, in pieces of all sizes, arrive as they were sent."""
    ours, theirs = socket.socketpair()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.issue("127.0.0.1"))
    accepted: list[ssl.SSLSocket] = []
    shaking = threading.Thread(target=lambda: accepted.append(server.wrap_socket(theirs, server_side=True)))
    shaking.start()
    client = trust.context().wrap_socket(ours, server_hostname="127.0.0.1")
    shaking.join()
    ends = [TlsStream(client, 10_000), TlsStream(accepted[0], 10_000)]
    sent = [os.urandom(3_000_000), os.urandom(3_000_000)]
    got: list[bytes] = [b"", b""]

    def write(number: int) -> None:
        data = memoryview(sent[number])
        for start in range(0, len(data), 70_000):
            piece = data[start : start + 70_000]
            ends[number].send([piece[:1], piece[1:20_000], piece[20_000:]])

    def read(number: int) -> None:
        found = bytearray()
        while len(found) < len(sent[1 - number]):
            assert ends[number].wait_to_receive(10_000)
            found += ends[number].receive(100_000) or b""
        got[number] = bytes(found)

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1) for work in (write, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert got == sent[::-1]
    ends[0].shut_down()
    assert ends[1].wait_to_receive(10_000)
    assert ends[1].receive(10) == b""
    for end in ends:
        end.close()


@pytest.mark.parametrize("host", ["a..b", ".a"])
def test_a_broker_behind_a_proxy_that_can_have_no_certificate(
    peer: SecuredPeer, trust: TlsConfig, client_of: MakeClient, host: str
) -> None:
    client = client_of(f"pulsar+ssl://{host}", tls=trust, sni_proxy_url=peer.url, operation_timeout_ms=300)
    with pytest.raises(OperationTimeout, match=f"cannot connect to {host}:6651 through the proxy"):
        client.partition_count(TOPIC)


def test_what_came_before_a_failure_of_tls_is_not_lost(authority: Authority, trust: TlsConfig) -> None:
    ours, theirs = socket.socketpair()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.issue("127.0.0.1"))
    accepted: list[ssl.SSLSocket] = []
    shaking = threading.Thread(target=lambda: accepted.append(server.wrap_socket(theirs, server_side=True)))
    shaking.start()
    stream = TlsStream(trust.context().wrap_socket(ours, server_hostname="127.0.0.1"), 1_000)
    shaking.join()
    accepted[0].sendall(b"last words")
    with socket.socket(fileno=accepted[0].detach()) as plain:
        plain.sendall(b"no record of TLS, nor the beginning of one")
        assert stream.wait_to_receive(1_000)
        assert stream.receive(100) == b"last words"
        assert stream.wait_to_receive(0)
        with pytest.raises(TlsError, match="the broker ended TLS"):
            stream.receive(100)
    stream.close()


def test_brokers_cannot_renegotiate() -> None:
    """A writer would turn in circles until the broker, at its leisure, has shaken hands again."""
    assert TlsConfig().context().options & ssl.OP_NO_RENEGOTIATION


# ---- key stores of Java, as keytool writes them


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
def requesting_peer(stores: Stores) -> Iterator[SecuredPeer]:
    """One that requests a certificate of clients."""
    one = SecuredPeer(*stores.authority.issue("127.0.0.1"))
    one.context.verify_mode = ssl.CERT_REQUIRED
    one.context.load_verify_locations(stores.authority.path)
    yield one
    one.close()


@pytest.mark.parametrize("by_authentication", [False, True])
def test_stores_are_trusted_and_shown(
    stores: Stores, requesting_peer: SecuredPeer, client_of: Callable[..., PulsarClient], by_authentication: bool
) -> None:
    # covers SEC-89
    trust = KeyStore(str(stores.trust), Secret(PASSWORD))
    if by_authentication:
        params = f"keyStoreType:{stores.kind},keyStorePath:{stores.key},keyStorePassword:{PASSWORD}"
        tls, authentication = TlsConfig(trust_store=trust), Authentication(KEY_STORE_TLS, Secret(params))
    else:
        tls = TlsConfig(trust_store=trust, key_store=KeyStore(str(stores.key), Secret(PASSWORD)))
        authentication = Authentication()
    assert client_of(requesting_peer.url, tls=tls, authentication=authentication).partition_count(TOPIC) == 0
    [connect, *_] = requesting_peer.of(BaseCommand.CONNECT)
    assert connect.connect.auth_method_name == ("tls" if by_authentication else "none")
    with pytest.raises(TlsError, match="certificate required"):
        client_of(requesting_peer.url, tls=TlsConfig(trust_store=trust)).partition_count(TOPIC)


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
