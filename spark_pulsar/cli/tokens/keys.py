"""Keys of tokens, as `pulsar tokens` has them: a secret key is bare bytes, a key pair is DER (PKCS #8 and X.509).

The libraries for them are loaded when a command needs them.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from spark_pulsar.client.clock import wall_ms
from spark_pulsar.server.configuration.reading import InvalidConfiguration

SECRET_KEY_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Length of a new secret key; a longer one serves too."""
RSA_KEY_BITS: Final = {"RS256": 2048, "RS384": 3072, "RS512": 4096, "PS256": 2048, "PS384": 3072, "PS512": 4096}
CURVES: Final = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}
KEY_PAIR_ALGORITHMS: Final = (*RSA_KEY_BITS, *CURVES)
_LEAST_KEY_BYTES: Final = min(SECRET_KEY_BYTES.values())
"""A text of fewer bytes is the path of a file that is not there, rather than a key."""
_KEY_URLS: Final = ("data:", "file:")
_ONLY_OWNER: Final = stat.S_IRUSR | stat.S_IWUSR
_ALL_MAY_READ: Final = _ONLY_OWNER | stat.S_IRGRP | stat.S_IROTH


class CannotUseKey(ValueError):
    """A key or a token that cannot be made, read or written; the text names the option or the file, never the key."""


@contextmanager
def needing_security() -> Iterator[None]:
    """Says of imports in its block that fail what to install. Raises CannotUseKey."""
    try:
        yield
    except ImportError as error:
        raise CannotUseKey(
            f"tokens and certificates need PyJWT and cryptography: pip install 'spark-pulsar[security]' ({error})"
        ) from error


def new_secret_key(algorithm: str) -> bytes:
    """Makes a random secret key of the length that an algorithm needs."""
    if algorithm not in SECRET_KEY_BYTES:
        wanted = f"has no secret key; these have: {', '.join(SECRET_KEY_BYTES)}"
        raise CannotUseKey(f"--signature-algorithm {algorithm} {wanted}")
    return secrets.token_bytes(SECRET_KEY_BYTES[algorithm])


def new_key_pair(algorithm: str) -> tuple[bytes, bytes]:
    """Makes a private key and its public key, both in DER form."""
    if algorithm not in KEY_PAIR_ALGORITHMS:
        wanted = f"has no key pair; these have: {', '.join(KEY_PAIR_ALGORITHMS)}"
        raise CannotUseKey(f"--signature-algorithm {algorithm} {wanted}")
    with needing_security():
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, rsa
    key: Any
    if algorithm in RSA_KEY_BITS:
        key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_KEY_BITS[algorithm])
    else:
        curves: dict[str, Any] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
        key = ec.generate_private_key(curves[algorithm])
    der, public_form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    private = key.private_bytes(der, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, key.public_key().public_bytes(der, public_form)


def read_key(text: str, option: str) -> bytes:
    """Reads the key that an option names, as the broker reads `tokenSecretKey` and `tokenPublicKey` (SEC-4)."""
    with needing_security():
        from spark_pulsar.server.security import token
    try:
        key = token.read_key(text, option)
    except InvalidConfiguration as error:
        raise CannotUseKey(str(error)) from None
    if len(key) < _LEAST_KEY_BYTES and not text.startswith(_KEY_URLS) and not Path(text).exists():
        raise CannotUseKey(f"{option}: there is no such file, and as a key in base64 it has only {len(key) * 8} bits")
    return key


def algorithm_of_secret(key: bytes, option: str) -> str:
    """Chooses the strongest algorithm that a secret key is long enough for (SEC-81)."""
    fitting = [name for name, length in SECRET_KEY_BYTES.items() if len(key) >= length]
    if not fitting:
        raise CannotUseKey(f"{option}: the key has {len(key) * 8} bits; 256 or more are needed")
    return fitting[-1]


def private_key(key: bytes, algorithm: str) -> Any:
    """Loads a private key for an algorithm."""
    with needing_security():
        from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key
    load = load_pem_private_key if _is_pem(key) else load_der_private_key
    return _fitting(lambda: load(key, None), algorithm, "--private-key")


def public_key(key: bytes, algorithm: str) -> Any:
    """Loads a public key for an algorithm."""
    with needing_security():
        from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key
    load = load_pem_public_key if _is_pem(key) else load_der_public_key
    return _fitting(lambda: load(key), algorithm, "--public-key")


def _is_pem(key: bytes) -> bool:
    return b"-----BEGIN " in key


def _fitting(load: Callable[[], Any], algorithm: str, option: str) -> Any:
    if algorithm not in KEY_PAIR_ALGORITHMS:
        wanted = ", ".join(KEY_PAIR_ALGORITHMS)
        raise CannotUseKey(f"--signature-algorithm {algorithm} is none of key pairs, which are {wanted}")
    try:
        key = load()
    except (ValueError, TypeError) as error:  # the latter for one with a password
        raise CannotUseKey(f"{option}: no such key in DER or PEM form, without a password") from error
    curve = getattr(getattr(key, "curve", None), "name", None)
    of = [name for name, own_curve in CURVES.items() if own_curve == curve] if curve else list(RSA_KEY_BITS)
    if not hasattr(key, "key_size") or algorithm not in of:
        raise CannotUseKey(
            f"{option}: the key is not one of {algorithm}" + (f": give --signature-algorithm {of[0]}" if of else "")
        )
    return key


def make_token(
    subject: str, key: Any, algorithm: str, lifetime_s: int | None = None, headers: dict[str, str] | None = None
) -> str:
    """Makes a token for a role, of the claims that `pulsar tokens` gives it."""
    with needing_security():
        import jwt
    claims: dict[str, Any] = {"sub": subject}
    if lifetime_s is not None:
        claims["exp"] = wall_ms() // 1000 + lifetime_s
    return jwt.encode(claims, key, algorithm, headers={**(headers or {}), "typ": (headers or {}).get("typ")})


def write_secret_file(path: Path, data: bytes) -> None:
    """Writes a new file that its owner alone may read (SEC-80)."""
    _write_new(path, data, _ONLY_OWNER)


def write_public_file(path: Path, data: bytes) -> None:
    """Writes a new file that all may read."""
    _write_new(path, data, _ALL_MAY_READ)


def check_new(*paths: Path) -> None:
    """Refuses files that exist already: a key is not overwritten in silence (SEC-80)."""
    for path in paths:
        if path.exists() or path.is_symlink():
            raise CannotUseKey(f"{path} exists: name another file, or remove it if its tokens may become invalid")


def _write_new(path: Path, data: bytes, mode: int) -> None:
    check_new(path)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
    except OSError as error:
        raise CannotUseKey(f"{path} cannot be written: {error.strerror}") from error
