"""Options of security and encryption: checked where the user stands, and secrets shown nowhere."""

from __future__ import annotations

import base64
import pickle
from typing import Any

import pytest

from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.service_url import Address
from spark_pulsar.client.encryption.key_files import KeyFiles
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ, STREAM_WRITE
from spark_pulsar.connector.worker_clients import client_for

TLS = "pulsar+ssl://broker:6651"
JAVA = "org.apache.pulsar.client.impl.auth."
KEY_STORE_TLS = f"{JAVA}AuthenticationKeyStoreTls"
S3CRET = "s3cret-value"


def parse(url: str = TLS, **client: str) -> Options:
    return parse_options({"service.url": url, "topic": "t"} | {f"pulsar.client.{k}": v for k, v in client.items()})


def config(url: str = TLS, **client: str) -> ClientConfig:
    return client_for(parse(url, **client)).config


def test_defaults() -> None:
    plain = config("pulsar://broker")
    assert (plain.uses_tls, plain.authentication.plugin, plain.listener_name, plain.sni_proxy) == (False, "", "", None)
    tls = config()
    assert tls.uses_tls
    assert tls.tls.hostname_verification_enable
    assert not tls.tls.allow_insecure_connection


def test_all_of_them() -> None:
    given = config(
        authPluginClassName=f"{JAVA}AuthenticationToken",
        authParams="token:abc",
        tlsTrustCertsFilePath="/ca.pem",
        tlsHostnameVerificationEnable="false",
        tlsCertificateFilePath="/c.pem",
        tlsKeyFilePath="/k.pem",
        listenerName="outside",
        proxyServiceUrl="pulsar+ssl://proxy",
        proxyProtocol="sni",
    )
    assert given.authentication.params.reveal() == "token:abc"
    assert (given.tls.trust_certs_file_path, given.tls.hostname_verification_enable) == ("/ca.pem", False)
    assert (given.tls.certificate_file_path, given.tls.key_file_path) == ("/c.pem", "/k.pem")
    assert (given.listener_name, given.sni_proxy) == ("outside", Address("proxy", 6651))


def test_use_tls_is_the_same_as_the_scheme() -> None:
    assert config("pulsar://a:1,b", useTls="true") == config("pulsar+ssl://a:1,b:6651".replace(":6651", ""))
    assert config("pulsar://b", useTls="true").addresses == (Address("b", 6651),)
    assert not config("pulsar://b", useTls="false").uses_tls
    with pytest.raises(OptionError, match="useTls = false contradicts"):
        parse(TLS, useTls="false")


@pytest.mark.parametrize(
    ("url", "client", "reason"),
    [
        (TLS, {"tlsAllowInsecureConnection": "true", "tlsHostnameVerificationEnable": "true"}, "contradict"),
        (TLS, {"tlsKeyFilePath": "/k"}, "both tlsCertificateFilePath and tlsKeyFilePath"),
        (TLS, {"tlsTrustCertsFilePath": ""}, "tlsTrustCertsFilePath = '': expected a text"),
        ("pulsar://b", {"tlsTrustCertsFilePath": "/ca"}, "tlsTrustCertsFilePath needs TLS"),
        ("pulsar://b", {"authPluginClassName": "tls", "authParams": "tlsCertFile:/c,tlsKeyFile:/k"}, "needs TLS"),
        (TLS, {"authPluginClassName": "tls"}, "needs one"),
        (TLS, {"authPluginClassName": "token"}, "expected token:TEXT"),
        (TLS, {"authPluginClassName": f"{JAVA}AuthenticationDisabled", "authParams": "token:a"}, "shows none"),
        (TLS, {"authPluginClassName": f"{JAVA}AuthenticationAthenz"}, "AuthenticationAthenz' is not supported; supp"),
        (TLS, {"proxyServiceUrl": "pulsar+ssl://p:1"}, "proxyServiceUrl and .*proxyProtocol need each other"),
        (TLS, {"proxyProtocol": "SNI"}, "need each other"),
        (TLS, {"proxyProtocol": "SOCKS5"}, "expected SNI"),
        (TLS, {"proxyServiceUrl": "pulsar://p:1", "proxyProtocol": "SNI"}, r"expected pulsar\+ssl://"),
        (TLS, {"authPluginClassName": "token", "authParams": "eyJhbGciOi"}, "write token:TEXT, so that Spark hides it"),
        (TLS, {"useKeyStoreTls": "yes"}, "expected true or false"),
        (TLS, {"tlsTrustStoreType": "JCEKS"}, "expected one of JKS, PKCS12"),
        (TLS, {"tlsCiphers": "a"}, "use pulsar.client.tlsProtocols"),
        (TLS, {"tlsProtocols": "TLSv1"}, "expected one of TLSv1.2, TLSv1.3"),
        ("pulsar://broker", {"useKeyStoreTls": "true"}, "useKeyStoreTls needs TLS"),
        (
            TLS,
            {"authPluginClassName": KEY_STORE_TLS, "authParams": "keyStoreType:BCFKS,keyStorePath:/a"},
            "none of JKS",
        ),
        (TLS, {"authPluginClassName": KEY_STORE_TLS, "authParams": "keyStoreType:JKS"}, "expected keyStoreType:JKS"),
        ("pulsar+ssl://a:1,pulsar+ssl://b:1", {}, "one scheme for all"),
    ],
)
def test_what_cannot_be_is_refused(url: str, client: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        parse(url, **client)


@pytest.mark.parametrize(
    "client",
    [
        {"authParams": S3CRET},
        {"authPluginClassName": "token", "authParams": f"{S3CRET} {S3CRET}"},
        {"authPluginClassName": "token", "authParams": S3CRET},
        {"authPluginClassName": "basic", "authParams": f"me:{S3CRET}"},
        {"authPluginClassName": "oauth2", "authParams": f'{{"issuerUrl": "https://me:{S3CRET}@a"}}'},
        {"proxyServiceUrl": f"pulsar+ssl://me:{S3CRET}@p", "proxyProtocol": "SNI"},
    ],
)
def test_errors_quote_no_secret(client: dict[str, str]) -> None:
    with pytest.raises(OptionError) as caught:
        parse(**client)
    error: BaseException | None = caught.value
    while error is not None:
        assert S3CRET not in repr(error)
        error = error.__cause__ or error.__context__


def test_a_password_in_the_service_url_is_refused_unseen() -> None:
    with pytest.raises(OptionError, match="do not belong there") as caught:
        parse(f"pulsar://me:{S3CRET}@broker")
    assert S3CRET not in str(caught.value)


def test_options_carry_the_secret_to_the_executors_and_never_show_it() -> None:
    options = pickle.loads(pickle.dumps(parse(authPluginClassName="token", authParams=f"token:{S3CRET}")))
    assert S3CRET not in repr(options)
    assert options.security.authentication.params.reveal() == f"token:{S3CRET}"


# ---- encrypted messages: names, places of keys, actions


def parse_plain(**options: Any) -> Options:
    return parse_options({"service.url": "pulsar://h:1", "topic": "t", **options})


def test_names_and_places() -> None:
    options = parse_plain(encryptionKeys="a, b,a", encryptionPublicKeys='{"a": "/a.pem", "b": "env:B"}')
    assert options.for_write(STREAM_WRITE).encryption_keys == ("a", "b")
    assert options.encryption_public_keys == KeyFiles(by_name=(("a", "/a.pem"), ("b", "env:B")))
    read = parse_plain(encryptionPrivateKeys="file:///k.pem", cryptoFailureAction="discard").for_read(BATCH_READ)
    assert read.encryption_private_keys == KeyFiles("file:///k.pem")
    assert read.crypto_failure_action == "DISCARD"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"encryptionKeys": "a"}, "encryptionKeys and encryptionPublicKeys need each other"),
        ({"encryptionPublicKeys": "/a.pem"}, "need each other"),
        ({"encryptionKeys": "a,b", "encryptionPublicKeys": '{"a": "/a.pem"}'}, "names no key for b"),
        ({"encryptionKeys": " ,", "encryptionPublicKeys": "/a.pem"}, "expected the name of a key"),
        ({"encryptionKeys": "a", "encryptionPublicKeys": "a.pem"}, "absolute path"),
        ({"encryptionKeys": "a", "encryptionPublicKeys": '{"a": 1}'}, "JSON object of name to place"),
        ({"cryptoFailureAction": "FAIL"}, "for writes with encryptionKeys only"),
        (
            {"encryptionKeys": "a", "encryptionPublicKeys": "/a.pem", "cryptoFailureAction": "DISCARD"},
            "DISCARD is for reads",
        ),
        ({"encryptionPrivateKeys": "/a.pem"}, "for batch read and stream read only"),
    ],
)
def test_writes_that_contradict_themselves(options: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        parse_plain(**options).for_write(STREAM_WRITE)


def test_reads_that_contradict_themselves() -> None:
    with pytest.raises(OptionError, match="SEND is for writes"):
        parse_plain(cryptoFailureAction="SEND").for_read(BATCH_READ)
    with pytest.raises(OptionError, match="DEADLETTER would publish decrypted payloads"):
        parse_plain(encryptionPrivateKeys="/k.pem", mode="DEADLETTER", deadLetterTopic="d").for_read(BATCH_READ)
    with pytest.raises(OptionError, match="without what decrypts them"):
        parse_plain(cryptoFailureAction="CONSUME", mode="DEADLETTER", deadLetterTopic="d").for_read(BATCH_READ)
    with pytest.raises(OptionError, match="keys in a batch are encrypted"):
        parse_plain(cryptoFailureAction="CONSUME", keys='["k"]').for_read(BATCH_READ)


def test_a_private_key_among_the_options_is_refused_and_not_shown() -> None:
    # covers READ-15
    pem = "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----"
    url = "data:application/x-pem-file;base64," + base64.b64encode(pem.encode()).decode()
    for value in (pem, url, '{"a": "' + url + '"}', '{"a": "SECRET', "SECRET"):
        with pytest.raises(OptionError, match=r"encryptionPrivateKeys = \*+\(redacted\): ") as refused:
            parse_plain(encryptionPrivateKeys=value)
        assert "SECRET" not in str(refused.value)
        assert url not in str(refused.value)
