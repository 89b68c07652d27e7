"""Data keys: sealed for the holders of private keys, by RSA (OAEP with SHA-1) or ECIES, and opened by them."""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

from spark_pulsar.client.encryption import ecies
from spark_pulsar.client.encryption.key_files import place_text, read_key
from spark_pulsar.client.errors import EncryptionKeyError

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_OAEP: Final = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)


def load_public_key(place: str) -> PublicKey:
    """Returns the public key, or that of a certificate. Raises EncryptionKeyError."""
    pem = read_key(place)
    try:
        is_certificate = b"-----BEGIN CERTIFICATE-----" in pem
        key = load_pem_x509_certificate(pem).public_key() if is_certificate else load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise EncryptionKeyError(f"{place_text(place)} holds no public key (PEM) that can be used: {error}") from None
    if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        raise EncryptionKeyError(f"the public key in {place_text(place)} is neither RSA nor of an elliptic curve")
    return key


def load_private_key(place: str) -> PrivateKey:
    """Returns the private key. Raises EncryptionKeyError."""
    try:
        key = load_pem_private_key(read_key(place), None)
    except TypeError:
        raise EncryptionKeyError(
            f"the private key in {place} is protected by a password, which is not supported"
        ) from None
    except (ValueError, UnsupportedAlgorithm):  # whose texts might quote the file
        raise EncryptionKeyError(f"{place} holds no private key (PEM) that can be used") from None
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise EncryptionKeyError(f"the private key in {place} is neither RSA nor of an elliptic curve")
    return key


def seal(key: PublicKey, data_key: bytes) -> bytes:
    """Returns a data key sealed for the holder of the private key."""
    if isinstance(key, rsa.RSAPublicKey):
        return key.encrypt(data_key, _OAEP)
    return ecies.seal(key, data_key)


def unseal(key: PrivateKey, sealed: bytes) -> bytes:
    """Returns a data key that was sealed for this key. Raises ValueError for anything else."""
    if isinstance(key, rsa.RSAPrivateKey):
        return key.decrypt(sealed, _OAEP)
    return ecies.unseal(key, sealed)
