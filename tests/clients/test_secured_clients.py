"""Apache's Java and Go clients and its `pulsar-admin`, over TLS with certificates of both sides, by token or role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.clients.go_client import SECOND, GoClient, GoError, texts
from tests.clients.java_client import Java, JavaClient
from tests.clients.pulsar_admin import run
from tests.clients.secured import TOKEN_PLUGIN, Secured, secured_broker

REFUSED = ("bad token", "no certificate")
TOPIC = "persistent://public/default/secured-"


@pytest.fixture(scope="module")
def secured(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """The broker of all tests here."""
    with secured_broker(broker_kind, tmp_path_factory.mktemp("secured")) as running:
        yield running


def java_client(java: Java, secured: Secured, how: str) -> JavaClient:
    """Makes a client that shows a certificate in the handshake, and says who it is by token or by that certificate."""
    factory = java.api.AuthenticationFactory
    builder = java.api.PulsarClient.builder().serviceUrl(secured.service_url)
    builder = builder.tlsTrustCertsFilePath(str(secured.trusted)).enableTlsHostnameVerification(True)
    patience_s = 3 if how in REFUSED else 60  # the client tries again whatever it is told
    builder = builder.operationTimeout(patience_s, java.jvm.java.util.concurrent.TimeUnit.SECONDS)
    if how != "no certificate":
        builder = builder.tlsCertificateFilePath(str(secured.certificate)).tlsKeyFilePath(str(secured.key))
    if how == "certificate":
        shown = factory.TLS(str(secured.certificate), str(secured.key))
    else:
        shown = factory.token(secured.bad_token if how == "bad token" else secured.token)
    return JavaClient(java, builder.authentication(shown).build())


@pytest.mark.parametrize("how", ["token", "certificate"])
def test_java(java: Java, secured: Secured, how: str) -> None:
    # covers AU-2, AU-5
    client = java_client(java, secured, how)
    topic = f"{TOPIC}java-{how}"
    consumer = client.consumer(topic, java.api.Schema.STRING)
    client.producer(topic, java.api.Schema.STRING).send("hello")
    assert client.receive(consumer).getValue() == "hello"
    client.client.close()


@pytest.mark.parametrize("how", REFUSED)
def test_java_is_refused(java: Java, secured: Secured, how: str) -> None:
    # covers AU-1, AU-5
    client = java_client(java, secured, how)
    with pytest.raises(Py4JJavaError) as refused:
        client.producer(f"{TOPIC}refused", java.api.Schema.STRING)
    assert ("Failed to authenticate" in str(refused.value.java_exception)) == (how == "bad token")
    assert secured.bad_token not in str(refused.value.java_exception)
    client.client.close()


def go_options(secured: Secured, how: str) -> dict[str, Any]:
    """The same for a Go client."""
    options: dict[str, Any] = {"TLSTrustCertsFilePath": str(secured.trusted), "TLSValidateHostname": True}
    files = [str(secured.certificate), str(secured.key)]
    if how == "certificate":
        return options | {"CertificateRole": files}
    if how != "no certificate":
        options |= {"TLSCertificateFile": files[0], "TLSKeyFilePath": files[1]}
    return options | {"Token": secured.bad_token if how == "bad token" else secured.token}


@pytest.mark.parametrize("how", ["token", "certificate"])
def test_go(go_program: Path, secured: Secured, how: str) -> None:
    # covers AU-2, AU-5
    client = GoClient(go_program, secured.service_url, **go_options(secured, how))
    topic = f"{TOPIC}go-{how}"
    client.producer(topic).send("hello")
    assert texts(client.consumer(topic).receive(1)) == ["hello"]
    client.close()


@pytest.mark.parametrize("how", REFUSED)
def test_go_is_refused(go_program: Path, secured: Secured, how: str) -> None:
    # covers AU-1, AU-5
    client = GoClient(go_program, secured.service_url, **go_options(secured, how) | {"OperationTimeout": 2 * SECOND})
    with pytest.raises(GoError):
        _ = client.producer(f"{TOPIC}refused").name
    client.close()


def test_pulsar_admin(secured: Secured, tmp_path: Path) -> None:
    # covers AU-6
    tls = (
        f"tlsTrustCertsFilePath={secured.trusted}\ntlsEnableHostnameVerification=true\n"
        f"tlsCertificateFilePath={secured.certificate}\ntlsKeyFilePath={secured.key}\nauthPlugin={TOKEN_PLUGIN}\n"
    )
    commands = ["tenants create by-token", "namespaces create by-token/ns", "namespaces list by-token", "tenants list"]
    good = run(secured.admin_url, commands, tmp_path, f"{tls}authParams=token:{secured.token}\n")
    assert [done.printed for done in good] == ["", "", "by-token/ns", "by-token\npublic\npulsar"]
    (refused,) = run(secured.admin_url, commands[-1:], tmp_path, f"{tls}authParams=token:{secured.bad_token}\n")
    assert "401" in refused.printed or "Failed to authenticate" in refused.printed
    assert "public" not in refused.printed
    assert secured.bad_token not in refused.printed
