"""Certificates for a broker that a test starts: an authority of its own, which no other machine trusts."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from spark_pulsar.cli.tokens.keys import needing_security, write_public_file, write_secret_file
from spark_pulsar.client.clock import wall_ms

LIFETIME: Final = timedelta(days=365)
_CLOCK_SKEW: Final = timedelta(hours=1)


class Authority:
    """An authority that signs certificates as long as this object lives: its key is written nowhere."""

    def __init__(self, directory: Path) -> None:
        """Files go into `directory`, which is there."""
        with needing_security():
            from cryptography import x509
        self._x509 = x509
        self._directory = directory
        self._key = _new_key()
        self._name = _name("spark-pulsar broker_process")
        usage: Any = x509.KeyUsage
        certificate = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(
                usage(**dict.fromkeys(_USAGES, False) | {"key_cert_sign": True, "crl_sign": True}), critical=True
            )
            .sign(self._key, _sha256())
        )
        self.path = directory / "authority.pem"
        """The authority's own certificate, for clients to trust."""
        write_public_file(self.path, _pem(certificate))

    def issue(self, name: str, hosts: tuple[str, ...] = ()) -> tuple[Path, Path]:
        """Makes the files of a certificate, with `name` as its common name (the role of a client), and of its key."""
        x509 = self._x509
        key = _new_key()
        oids = x509.oid.ExtendedKeyUsageOID
        builder = (
            self._builder(_name(name), key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([oids.SERVER_AUTH, oids.CLIENT_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self._key, _sha256())
        number = f"{certificate.serial_number:x}"[:12]
        files = self._directory / f"{number}.pem", self._directory / f"{number}.key.pem"
        write_public_file(files[0], _pem(certificate))
        write_secret_file(files[1], _private_pem(key))
        return files

    def _builder(self, name: Any, key: Any) -> Any:
        now = datetime.fromtimestamp(wall_ms() / 1000, UTC)
        public = key.public_key()
        return (
            self._x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(self._x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + LIFETIME)
            .add_extension(self._x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )


_USAGES: Final = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    curve: Any = ec.SECP256R1()
    return ec.generate_private_key(curve)


def _name(text: str) -> Any:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _sha256() -> Any:
    from cryptography.hazmat.primitives.hashes import SHA256

    return SHA256()


def _pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return bytes(certificate.public_bytes(Encoding.PEM))


def _private_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
