"""Certificates and tokens of the tests' own authorities."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import jwt
import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

_numbers = itertools.count()


class Authority:
    """An authority that signs certificates; files go into one directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._authority = trustme.CA()
        self.path = directory / "authority.pem"
        self._authority.cert_pem.write_to_path(self.path)

    def issue(self, *hosts: str, common_name: str | None = None) -> tuple[Path, Path]:
        """Files of a new certificate for these hosts, with its chain, and of its key (PKCS #8)."""
        made = self._authority.issue_cert(*hosts, common_name=common_name)
        base = self._directory / f"certificate-{next(_numbers)}"
        certificate, key = base.with_suffix(".pem"), base.with_suffix(".key.pem")
        certificate.write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
        private = _loaded(made.private_key_pem.bytes())
        key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, key


def _loaded(pem: bytes) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return load_pem_private_key(pem, None)


class TokenIssuer:
    """An issuer of JSON web tokens, signed with RS256."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.public_key_path = directory / "token-public-key.der"
        public = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.public_key_path.write_bytes(public)

    def token(self, role: str, lives_s: float | None = None) -> str:
        """A token for a role; `lives_s`: how long it is valid, for ever if not given."""
        claims: dict[str, Any] = {"sub": role, "jti": f"{next(_numbers)}"}
        if lives_s is not None:
            claims["exp"] = time.time_ns() / 1e9 + lives_s
        return jwt.encode(claims, self._key, algorithm="RS256")
