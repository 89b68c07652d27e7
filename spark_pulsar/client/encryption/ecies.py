"""ECIES for keys of elliptic curves, byte for byte as the Java client has it of BouncyCastle by default.

An ephemeral key agrees with the receiver's (ECDH); KDF2 with SHA-1 over the ephemeral point and the agreed number makes
a MAC key of 128 bits and a pad as long as the data, which is XORed with it. The result is the ephemeral point,
uncompressed, the data so covered, and HMAC-SHA1 of it and of eight zero bytes, the length of an empty label.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

_MAC_KEY_BYTES: Final = 16
_MAC_BYTES: Final = 20
_NO_LABEL: Final = bytes(8)


def seal(key: ec.EllipticCurvePublicKey, data: bytes) -> bytes:
    """Returns the data sealed for the holder of the private key."""
    ephemeral = ec.generate_private_key(key.curve)
    point = ephemeral.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    mac_key, pad = _keys(point, ephemeral.exchange(ec.ECDH(), key), len(data))
    covered = _xor(data, pad)
    return point + covered + _mac(mac_key, covered)


def unseal(key: ec.EllipticCurvePrivateKey, sealed: bytes) -> bytes:
    """Returns the data that was sealed for this key. Raises ValueError for anything else."""
    point_bytes = 1 + 2 * ((key.curve.key_size + 7) // 8)
    if len(sealed) < point_bytes + _MAC_BYTES:
        raise ValueError("it is too short")
    point, covered, mac = sealed[:point_bytes], sealed[point_bytes:-_MAC_BYTES], sealed[-_MAC_BYTES:]
    ephemeral = ec.EllipticCurvePublicKey.from_encoded_point(key.curve, point)
    mac_key, pad = _keys(point, key.exchange(ec.ECDH(), ephemeral), len(covered))
    if not hmac.compare_digest(mac, _mac(mac_key, covered)):
        raise ValueError("it is sealed for another key")
    return _xor(covered, pad)


def _keys(point: bytes, agreed: bytes, data_bytes: int) -> tuple[bytes, bytes]:
    """Returns the MAC key and the pad (KDF2: counters from 1 on)."""
    stream, counter = b"", 0
    while len(stream) < _MAC_KEY_BYTES + data_bytes:
        counter += 1
        stream += hashlib.sha1(point + agreed + counter.to_bytes(4, "big")).digest()
    return stream[:_MAC_KEY_BYTES], stream[_MAC_KEY_BYTES : _MAC_KEY_BYTES + data_bytes]


def _mac(key: bytes, covered: bytes) -> bytes:
    return hmac.digest(key, covered + _NO_LABEL, "sha1")


def _xor(data: bytes, pad: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(data, pad, strict=True))
