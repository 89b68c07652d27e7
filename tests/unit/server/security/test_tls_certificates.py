"""Authentication by client certificates."""

import datetime
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.server.configuration.server_config import ServerConfig
from spark_pulsar.server.security.provider import Credentials
from spark_pulsar.server.security.tls_certificates import CertificateProvider

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
