"""TLS: the context, what keeps a broker from starting, and authentication by client certificates."""

import datetime
import logging
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.server.configuration.reading import load_config
from spark_pulsar.server.configuration.server_config import ServerConfig
from spark_pulsar.server.security.provider import Credentials
from spark_pulsar.server.security.tls import TlsContexts, TlsNotPossible, TlsSettings, make_context, openssl_name
from spark_pulsar.server.security.tls_certificates import CertificateProvider


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def settings(authority: trustme.CA, tmp_path: Path) -> TlsSettings:
    certificate, key, trust = (tmp_path / name for name in ("broker.pem", "broker.key", "authority.pem"))
    issue(authority, certificate, key)
    authority.cert_pem.write_to_path(trust)
    return TlsSettings(certificate, key, trust)


def issue(authority: trustme.CA, certificate: Path, key: Path) -> bytes:
    made = authority.issue_cert("localhost")
    certificate.write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
    key.write_bytes(made.private_key_pem.bytes())
    return ssl.PEM_cert_to_DER_cert(made.cert_chain_pems[0].bytes().decode())


def shown(context: ssl.SSLContext, authority: trustme.CA) -> bytes | None:
    """The certificate that a client sees in a handshake."""
    client_context = ssl.create_default_context()
    authority.configure_trust(client_context)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client.getpeercert(binary_form=True)


def test_clients_are_asked_for_a_certificate_where_there_is_who_could_have_signed_it(settings: TlsSettings) -> None:
    # covers SEC-43
    assert make_context(settings).verify_mode == ssl.CERT_OPTIONAL
    assert make_context(replace(settings, requires_client_certificate=True)).verify_mode == ssl.CERT_REQUIRED
    assert make_context(replace(settings, allows_insecure=True)).verify_mode == ssl.CERT_NONE
    assert make_context(replace(settings, trust_certs=None)).verify_mode == ssl.CERT_NONE


def test_protocols(settings: TlsSettings) -> None:
    # covers SEC-42
    context = make_context(settings)
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    context = make_context(replace(settings, protocols=("TLSv1.3",)))
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)


NEWEST = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")


def test_ciphers_by_default_have_forward_secrecy_and_authenticated_encryption(settings: TlsSettings) -> None:
    # covers SEC-42
    ciphers = [each for each in make_context(settings).get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert ciphers
    assert all(each["name"].startswith(("ECDHE-", "DHE-RSA-")) and each["aead"] for each in ciphers)


def test_ciphers_choose_the_protocols_too(settings: TlsSettings) -> None:
    # covers SEC-42
    older = make_context(replace(settings, ciphers=("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)))
    assert older.maximum_version == ssl.TLSVersion.TLSv1_2
    assert [each["name"] for each in older.get_ciphers() if each["protocol"] == "TLSv1.2"] == [
        "ECDHE-ECDSA-AES256-GCM-SHA384"
    ]
    assert make_context(replace(settings, ciphers=NEWEST)).minimum_version == ssl.TLSVersion.TLSv1_3
    both = make_context(replace(settings, ciphers=(*NEWEST, "ECDHE-RSA-AES128-GCM-SHA256")))
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.mark.parametrize(
    ("standard", "of_openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES128-SHA"),
    ],
)
def test_names_of_ciphers(standard: str, of_openssl: str) -> None:
    assert openssl_name(standard) == of_openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(of_openssl)
    assert of_openssl in {each["name"] for each in context.get_ciphers()}


def encrypted(pem: bytes, form: PrivateFormat) -> bytes:
    return load_pem_private_key(pem, None).private_bytes(Encoding.PEM, form, BestAvailableEncryption(b"secret"))


CERTIFICATE, KEY, TRUST = "tlsCertificateFilePath", "tlsKeyFilePath", "tlsTrustCertsFilePath"
DAMAGED = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        (CERTIFICATE, lambda _: None, "No such file"),
        (CERTIFICATE, lambda _: b"nonsense", "there is no certificate in PEM form"),
        (CERTIFICATE, lambda _: DAMAGED, "the certificate is damaged"),
        (CERTIFICATE, lambda _: b"\x30\x82\x01\x0a", "there is no certificate in PEM form"),
        (KEY, lambda _: None, "No such file"),
        (KEY, lambda _: b"", "there is no private key in PEM form"),
        (KEY, lambda _: DAMAGED.replace(b"CERTIFICATE", b"PRIVATE KEY"), "the key cannot be used"),
        (KEY, lambda pem: encrypted(pem, PrivateFormat.PKCS8), "the key is encrypted"),
        (KEY, lambda pem: encrypted(pem, PrivateFormat.TraditionalOpenSSL), "the key is encrypted"),
        (KEY, lambda _: trustme.CA().private_key_pem.bytes(), "the key does not fit the certificate"),
        (TRUST, lambda _: None, "No such file"),
        (TRUST, lambda _: b"", "there is no certificate in PEM form"),
        (TRUST, lambda _: DAMAGED, "a certificate is damaged"),
    ],
)
def test_a_file_that_is_no_good_is_named_with_its_key_and_the_reason(
    settings: TlsSettings, name: str, change: Callable[[bytes], bytes | None], reason: str
) -> None:
    # covers SEC-42
    path = {CERTIFICATE: settings.certificate, KEY: settings.key, TRUST: settings.trust_certs}[name]
    assert path is not None
    content = change(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TlsNotPossible) as refused:
        make_context(settings)
    assert str(refused.value).startswith(f"{name}={path}: {reason}")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"certificate": None}, "tlsCertificateFilePath is not set"),
        ({"key": None}, "tlsKeyFilePath is not set"),
        ({"ciphers": ("TLS_ROT13",)}, "tlsCiphers=TLS_ROT13: there is no cipher TLS_ROT13"),
        ({"ciphers": NEWEST[:1]}, "tlsCiphers=TLS_AES_256_GCM_SHA384: TLS 1.3 has all of its ciphers here or none"),
        ({"ciphers": NEWEST, "protocols": ("TLSv1.2",)}, "none is of the protocols TLSv1.2"),
        ({"trust_certs": None, "requires_client_certificate": True}, "needs tlsTrustCertsFilePath"),
        ({"allows_insecure": True, "requires_client_certificate": True}, "contradicts tlsAllowInsecureConnection"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_kept(settings: TlsSettings, changed: dict[str, object], text: str) -> None:
    # covers SEC-42, SEC-43
    with pytest.raises(TlsNotPossible) as refused:
        make_context(replace(settings, **changed))  # type: ignore[arg-type]
    assert text in str(refused.value)


def test_the_admin_api_may_have_protocols_and_ciphers_of_its_own(settings: TlsSettings) -> None:
    # covers SEC-42
    files = {"tlsCertificateFilePath": settings.certificate, "tlsKeyFilePath": settings.key}
    config = load_config(None, {**files, "tlsProtocols": "TLSv1.2", "webServiceTlsProtocols": "TLSv1.3"})
    contexts = TlsContexts(TlsSettings.of(config), TlsSettings.of_web(config))
    assert contexts.binary.maximum_version == ssl.TLSVersion.TLSv1_2
    assert contexts.web.minimum_version == ssl.TLSVersion.TLSv1_3
    config = load_config(None, {**files, "tlsProtocols": "TLSv1.2"})
    contexts = TlsContexts(TlsSettings.of(config), TlsSettings.of_web(config))
    assert contexts.web is contexts.binary
    config = load_config(None, {**files, "webServiceTlsCiphers": "TLS_ROT13"})
    with pytest.raises(TlsNotPossible, match="webServiceTlsCiphers=TLS_ROT13: there is no cipher"):
        TlsContexts(TlsSettings.of(config), TlsSettings.of_web(config))


def test_changed_files_are_for_new_handshakes(
    settings: TlsSettings, authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    # covers SEC-44
    caplog.set_level(logging.INFO)
    assert settings.certificate is not None
    assert settings.key is not None
    contexts = TlsContexts(settings)
    first = contexts.binary
    contexts.reload()
    assert contexts.binary is first

    settings.key.write_text("broken")
    for _ in range(2):
        contexts.reload()
    assert contexts.binary is first
    assert [each.levelname for each in caplog.records] == ["ERROR"], "once, not at every check"
    assert f"tlsKeyFilePath={settings.key}" in caplog.text

    fresh = issue(authority, settings.certificate, settings.key)
    contexts.reload()
    assert shown(contexts.binary, authority) == fresh
    assert shown(first, authority) not in (None, fresh)

    settings.certificate.unlink()
    contexts.reload()
    assert shown(contexts.binary, authority) == fresh


PROVIDER = CertificateProvider.from_config(ServerConfig(broker=BrokerConfig()))


def certificate(*names: tuple[Any, str]) -> bytes:
    """A certificate of a subject, in DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(kind, text) for kind, text in names])
    now = datetime.datetime(2026, 1, 1)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def role(der: bytes | None) -> str:
    return PROVIDER.authenticate(Credentials("tls", b"", der), 0).role


def test_the_common_name_is_the_role() -> None:
    # covers AU-5
    made = trustme.CA().issue_cert("client.test", common_name="alice")
    pem = made.cert_chain_pems[0].bytes()
    assert role(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)) == "alice"
    company = (NameOID.ORGANIZATION_NAME, "Company")
    assert role(certificate(company, (NameOID.COMMON_NAME, "bob, the first"))) == "bob, the first"


def test_of_several_the_last_one_counts() -> None:
    # covers AU-5
    assert role(certificate((NameOID.COMMON_NAME, "first"), (NameOID.COMMON_NAME, "last"))) == "last"


@pytest.mark.parametrize("der", [None, b"", b"\x30\x82garbage", certificate((NameOID.ORGANIZATION_NAME, "Company"))])
def test_without_one_nobody_gets_in(der: bytes | None) -> None:
    # covers AU-5
    with pytest.raises(AuthenticationError, match="certificate"):
        role(der)


def test_http_has_it_by_its_connection() -> None:
    # covers AU-6
    assert PROVIDER.from_headers({"authorization": "Basic x"}, b"der") == b""
    assert PROVIDER.from_headers({}, None) is None
