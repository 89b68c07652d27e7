"""TLS on both ports: who gets in, certificates that change, addresses over TLS and by the name of a listener.

Both brokers refuse clients without a certificate here, so that one start does for all tests.
"""

from __future__ import annotations

import json
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.apache_pulsar.start import ApachePulsar, free_ports
from tests.brokers import Broker
from tests.conformance.exchange import receive_texts, send_all
from tests.conftest import CONF_OF_OURS, RUNNING, Log
from tests.eventually import eventually
from tests.security.certificates import Authority

REFUSED_AFTER_S = 2


@dataclass
class Secured:
    """A broker with TLS, and the files of those who come to it."""

    broker: Broker
    tls_port: int
    https_port: int
    authority: Authority
    certificate: Path
    key: Path
    client_files: tuple[Path, Path]
    stranger: Authority

    def client(self, host: str = "localhost", trusted: Path | None = None, **settings: Any) -> pulsar.Client:
        """An official client that verifies the broker and its name, and shows its certificate."""
        return pulsar.Client(
            f"pulsar+ssl://{host}:{self.tls_port}",
            **{
                "authentication": pulsar.AuthenticationTLS(*map(str, self.client_files)),
                "tls_trust_certs_file_path": str(trusted or self.authority.path),
                "tls_validate_hostname": True,
                "logger": pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
                **settings,
            },
        )

    def context(self, files: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """A context of a client with these files."""
        context = ssl.create_default_context(cafile=str(self.authority.path))
        if files is not None:
            context.load_cert_chain(*files)
        return context

    def get(self, path: str, files: tuple[Path, Path] | None, headers: dict[str, str] | None = None) -> Any:
        """The answer of the admin API over TLS."""
        request = urllib.request.Request(f"https://localhost:{self.https_port}{path}", headers=headers or {})
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.context(files))
        )
        with opener.open(request, timeout=30) as answer:
            return json.loads(answer.read())

    def shown(self, port: int) -> bytes | None:
        """The certificate that a new connection is shown."""
        with (
            socket.create_connection(("127.0.0.1", port)) as sock,
            self.context(self.client_files).wrap_socket(sock, server_hostname="localhost") as tls,
        ):
            return tls.getpeercert(binary_form=True)


@pytest.fixture(scope="module")
def secured(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tls")
    authority, stranger = Authority(directory / "authority"), Authority(directory / "stranger")
    port, http_port, tls_port, https_port, bookie_port = free_ports(5)
    certificate, key = authority.issue("localhost", "127.0.0.1")
    inside, outside = "inside:{}://127.0.0.1:{}", "outside:{}://localhost:{}"
    conf = {
        "brokerServicePortTls": str(tls_port),
        "webServicePortTls": str(https_port),
        "tlsCertificateFilePath": str(certificate),
        "tlsKeyFilePath": str(key),
        "tlsTrustCertsFilePath": str(authority.path),
        "tlsRequireTrustedClientCertOnConnect": "true",
        "tlsCertRefreshCheckDurationSec": "1",
        "advertisedListeners": ",".join(
            each.format(scheme, number)
            for each in (inside, outside)
            for scheme, number in (("pulsar", port), ("pulsar+ssl", tls_port))
        ),
        "internalListenerName": "inside",
    }
    with ExitStack() as stack:
        if broker_kind == "ours":
            from spark_pulsar import broker_process

            data_dir = directory / "data"
            ours = stack.enter_context(broker_process(data_dir, CONF_OF_OURS | conf, port=port, http_port=http_port))
            RUNNING[ours] = Log(ours.log_path)
            stack.callback(RUNNING.pop, ours)
            running = Broker("ours", ours.service_url, ours.admin_url, ours)
        else:
            real = ApachePulsar(directory / "data", port, http_port, bookie_port, conf)
            stack.callback(real.stop)
            real.start()
            running = Broker("apache-pulsar", real.service_url, real.admin_url, real)
        stack.callback(running.close_since, 0)
        client_files = authority.issue("somebody.example", common_name="somebody")
        yield Secured(running, tls_port, https_port, authority, certificate, key, client_files, stranger)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_the_official_client_over_tls_verifies_the_name_of_the_broker(secured: Secured, host: str) -> None:
    # covers SEC-42
    client = secured.client(host)
    topic = secured.broker.topic()
    consumer = client.subscribe(topic, "s")
    values = [f"{number}" * 5_000 for number in range(40)]
    send_all(client.create_producer(topic), values)
    assert receive_texts(consumer, 40) == values
    client.close()


def test_clients_without_tls_are_served_beside(secured: Secured) -> None:
    # covers SEC-42
    topic = secured.broker.topic()
    client = secured.broker.client()
    consumer = client.subscribe(topic, "s")
    over_tls = secured.client()
    send_all(over_tls.create_producer(topic), ["over TLS"])
    assert receive_texts(consumer, 1) == ["over TLS"]
    over_tls.close()


@pytest.mark.parametrize(
    "settings",
    [
        lambda _: {"host": "127.1"},
        lambda secured: {"trusted": secured.stranger.path},
        lambda _: {"authentication": None},
        lambda secured: {
            "authentication": pulsar.AuthenticationTLS(
                *map(str, secured.stranger.issue("somebody.example", common_name="somebody"))
            )
        },
    ],
    ids=["another name", "unknown authority", "no certificate", "certificate of a stranger"],
)
def test_the_official_client_is_refused(secured: Secured, settings: Callable[[Secured], dict[str, Any]]) -> None:
    # covers SEC-43, AU-5
    client = secured.client(**settings(secured), operation_timeout_seconds=REFUSED_AFTER_S)
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(secured.broker.topic())
    client.close()


def test_the_admin_api_over_tls(secured: Secured) -> None:
    # covers SEC-42, SEC-43
    assert secured.get("/admin/v2/clusters", secured.client_files) == ["standalone"]
    for files in (None, secured.stranger.issue("somebody.example", common_name="somebody")):
        with pytest.raises((urllib.error.URLError, OSError)) as refused:
            secured.get("/admin/v2/clusters", files)
        assert not isinstance(refused.value, urllib.error.HTTPError)


def test_the_official_client_looks_up_over_https(secured: Secured) -> None:
    # covers SEC-46, ADM-70
    client = pulsar.Client(
        f"https://localhost:{secured.https_port}",
        authentication=pulsar.AuthenticationTLS(*map(str, secured.client_files)),
        tls_trust_certs_file_path=str(secured.authority.path),
        tls_validate_hostname=True,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    topic = secured.broker.topic(partitions=2)
    assert len(client.get_topic_partitions(topic)) == 2
    send_all(client.create_producer(topic), ["1"])
    client.close()


def urls(secured: Secured, host: str) -> tuple[str, str]:
    port = urllib.parse.urlsplit(secured.broker.service_url).port
    return f"pulsar://{host}:{port}", f"pulsar+ssl://{host}:{secured.tls_port}"


@pytest.mark.parametrize(("listener", "host"), [("", "127.0.0.1"), ("inside", "127.0.0.1"), ("outside", "localhost")])
def test_lookups_by_the_name_of_a_listener(secured: Secured, listener: str, host: str) -> None:
    # covers SEC-46, SEC-47
    topic = secured.broker.topic()
    found = secured.broker.raw().request("LOOKUP", topic=topic, advertised_listener_name=listener)
    assert (found["brokerServiceUrl"], found["brokerServiceUrlTls"]) == urls(secured, host)
    path = f"/lookup/v2/topic/{topic.replace('://', '/', 1)}"
    by_header = secured.get(path, secured.client_files, {"X-Pulsar-ListenerName": listener})
    assert (by_header["brokerUrl"], by_header["brokerUrlTls"]) == urls(secured, host)
    if listener:
        path += f"?listenerName={listener}"
        by_query = secured.get(path, secured.client_files, {"X-Pulsar-ListenerName": "nope"})
        assert (by_query["brokerUrl"], by_query["brokerUrlTls"]) == urls(secured, host)
    assert by_header["brokerUrlSsl"] == ""
    client = secured.client("localhost", listener_name=listener or None)
    send_all(client.create_producer(topic), ["1"])
    client.close()


def test_an_unknown_listener_and_the_addresses_of_the_cluster(secured: Secured) -> None:
    # covers SEC-46, SEC-47
    failed = secured.broker.raw().request("LOOKUP", topic=secured.broker.topic(), advertised_listener_name="nope")
    assert (failed["response"], failed["error"]) == ("Failed", "ServiceNotReady")
    assert failed["message"] == "the broker do not have nope listener"
    cluster = secured.get("/admin/v2/clusters/standalone", secured.client_files)
    assert (cluster["brokerServiceUrl"], cluster["brokerServiceUrlTls"]) == urls(secured, "127.0.0.1")
    leader = secured.get("/admin/v2/brokers/leaderBroker", secured.client_files)
    assert urllib.parse.urlsplit(leader["serviceUrl"]).scheme == "https"


def test_a_new_certificate_is_for_new_connections(secured: Secured) -> None:
    # covers SEC-44
    topic = secured.broker.topic()
    client = secured.client()
    producer = client.create_producer(topic)
    send_all(producer, ["before"])
    ports = (secured.tls_port, secured.https_port)
    before = [secured.shown(port) for port in ports]
    certificate, key = secured.authority.issue("localhost", "127.0.0.1")
    expected = ssl.PEM_cert_to_DER_cert(
        certificate.read_text().partition("-----END")[0] + "-----END CERTIFICATE-----\n"
    )
    assert expected not in before
    secured.key.write_bytes(key.read_bytes())
    secured.certificate.write_bytes(certificate.read_bytes())
    eventually(lambda: [secured.shown(port) for port in ports] == [expected, expected])
    send_all(producer, ["after"])
    stats = secured.get(f"/admin/v2/{topic.replace('://', '/', 1)}/stats", secured.client_files)
    assert len(stats["publishers"]) == 1
    client.close()
