"""Java's key stores: files of certificates and private keys, of the types JKS and PKCS12 (SEC-89).

A JKS file is read here: a few records, and keys that are hidden by a stream of SHA-1 digests of the password. PKCS12 is
read by the library `cryptography`. The file's first bytes say which of both it is, as for Java since version 9.
"""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from spark_pulsar.client.errors import TlsError
from spark_pulsar.client.secret import Secret
from spark_pulsar.model.extras import require

TYPES: Final = ("JKS", "PKCS12")
_NO_PASSWORD: Final = Secret("")
_JKS: Final = b"\xfe\xed\xfe\xed"
_PKCS12: Final = b"\x30"
_SALT: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_PRIVATE_KEY: Final = 1
_CERTIFICATE: Final = 2


class Contents(NamedTuple):
    """Certificates of authorities; private keys with the chain of each, the key's own certificate first. All in DER,
    keys as PKCS#8."""

    authorities: tuple[bytes, ...]
    identities: tuple[tuple[bytes, tuple[bytes, ...]], ...]


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A key store or a trust store: its file and its password, which is the password of its keys, too."""

    path: str
    password: Secret = _NO_PASSWORD

    def trust(self, context: ssl.SSLContext) -> None:
        """Has connections trust the authorities of this store. Raises TlsError."""
        authorities = self._contents().authorities
        if not authorities:
            raise TlsError(f"the trust store {self.path!r} has no certificate of an authority")
        try:
            context.load_verify_locations(cadata=b"".join(authorities))
        except ssl.SSLError as error:
            raise TlsError(f"the trust store {self.path!r} has a certificate that cannot be used: {error}") from error

    def show(self, context: ssl.SSLContext) -> None:
        """Has connections show the certificate of this store's private key. Raises TlsError."""
        identities = self._contents().identities
        if len(identities) != 1:
            raise TlsError(f"the key store {self.path!r} has {len(identities)} private keys, and one is expected")
        key, chain = identities[0]
        pem = _pem("PRIVATE KEY", key) + "".join(map(ssl.DER_cert_to_PEM_cert, chain))
        try:
            with _as_file(pem.encode()) as path:
                context.load_cert_chain(path, password=lambda: b"")
        except OSError as error:  # ssl.SSLError is one
            raise TlsError(f"the key store {self.path!r} has a key that cannot be used: {error}") from error

    def _contents(self) -> Contents:
        try:
            data = Path(self.path).read_bytes()
        except OSError as error:
            raise TlsError(f"the key store {self.path!r} cannot be read: {error.strerror}") from error
        password = self.password.reveal()
        try:
            if data.startswith(_JKS):
                return read_jks(data, password)
            if data.startswith(_PKCS12):
                return _read_pkcs12(data, password)
        except (ValueError, IndexError, struct.error) as error:
            raise TlsError(f"the key store {self.path!r} cannot be opened: {error}") from None
        raise TlsError(f"{self.path!r} is no key store of the types {' and '.join(TYPES)}")


def read_jks(data: bytes, password: str) -> Contents:
    """Reads a JKS file. Without a password its digest is not compared, and keys cannot be read. Raises ValueError."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    secret = password.encode("utf-16-be")
    if password and hashlib.sha1(secret + _SALT + body, usedforsecurity=False).digest() != digest:
        raise ValueError("the password is wrong, or the file is damaged")
    records = _Records(body, 4)
    version, count = records.number(4), records.number(4)
    authorities: list[bytes] = []
    identities: list[tuple[bytes, tuple[bytes, ...]]] = []
    for _ in range(count):
        tag = records.number(4)
        records.text()  # the alias
        records.number(8)  # the time of its making
        if tag == _PRIVATE_KEY:
            hidden = records.counted(4)
            chain = tuple(records.certificate(version) for _ in range(records.number(4)))
            identities.append((_revealed(hidden, secret), chain))
        elif tag == _CERTIFICATE:
            authorities.append(records.certificate(version))
        else:
            raise ValueError(f"an entry of type {tag} is none of JKS")
    return Contents(tuple(authorities), tuple(identities))


class _Records:
    """Numbers, texts and bytes as Java's `DataOutputStream` writes them."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._at = start

    def number(self, size: int) -> int:
        return int.from_bytes(self.read(size))

    def read(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError("the file ends too early")
        self._at += size
        return taken

    def counted(self, size: int) -> bytes:
        return self.read(self.number(size))

    def text(self) -> str:
        return self.counted(2).decode(errors="replace")

    def certificate(self, version: int) -> bytes:
        if version > 1 and (kind := self.text()) not in ("X.509", "X509"):
            raise ValueError(f"a certificate of type {kind} is none that TLS uses")
        return self.counted(4)


def _revealed(encrypted_key_info: bytes, secret: bytes) -> bytes:
    """Returns the private key (PKCS#8) that JKS hides: salt, key under the key stream, digest. Raises ValueError."""
    sequence, _ = _der(encrypted_key_info, 0x30)
    _, rest = _der(sequence, 0x30)  # the algorithm
    protected, _ = _der(rest, 0x04)
    salt, hidden = protected[:_DIGEST_BYTES], protected[_DIGEST_BYTES:-_DIGEST_BYTES]
    stream, block = bytearray(), salt
    while len(stream) < len(hidden):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
    if hashlib.sha1(secret + key, usedforsecurity=False).digest() != protected[-_DIGEST_BYTES:]:
        raise ValueError("the password of the private key is not that of the store")
    return key


def _der(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Returns the content of one element of DER, and what comes after it. Raises ValueError."""
    if data[0] != tag:
        raise ValueError("a private key has an unknown form")
    size, start = data[1], 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(data[2:start])
    return data[start : start + size], data[start + size :]


def _read_pkcs12(data: bytes, password: str) -> Contents:
    require("a PKCS12 key store", "cryptography")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    store = pkcs12.load_pkcs12(data, password.encode() if password else None)
    der = serialization.Encoding.DER
    others = tuple(certificate.certificate.public_bytes(der) for certificate in store.additional_certs)
    if store.key is None or store.cert is None:
        return Contents(others if store.cert is None else (store.cert.certificate.public_bytes(der), *others), ())
    key = store.key.private_bytes(der, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Contents((), ((key, (store.cert.certificate.public_bytes(der), *others)),))


def _pem(kind: str, der: bytes) -> str:
    text = base64.b64encode(der).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Gives the path of a file that holds a private key for a moment: in memory where the system can, for OpenSSL reads
    certificates of its own from files alone."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        descriptor = os.memfd_create("key")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:  # only its owner can read it
        file.write(data)
        file.flush()
        yield file.name
