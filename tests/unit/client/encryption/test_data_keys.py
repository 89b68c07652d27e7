"""Data keys sealed for both kinds of keys, places of keys, and what is never told."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization import PublicFormat as Public

from spark_pulsar.client.encryption.data_keys import load_private_key, load_public_key, seal, unseal
from spark_pulsar.client.encryption.decryptor import Decryptor
from spark_pulsar.client.encryption.encryptor import Encryptor
from spark_pulsar.client.encryption.key_files import KeyFiles, check_place, read_key
from spark_pulsar.client.errors import DecryptionError, EncryptionKeyError
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

CURVES = [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1(), ec.SECP256K1()]


def _pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, directory: Path) -> tuple[str, str]:
    """Writes a pair of keys; the places of the public and the private one."""
    public, private = directory / "public.pem", directory / "private.pem"
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, Public.SubjectPublicKeyInfo))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return str(public), str(private)


@pytest.mark.parametrize("curve", [None, *CURVES], ids=lambda curve: curve.name if curve else "rsa")
def test_a_data_key_is_opened_by_its_private_key_alone(tmp_path: Path, curve: ec.EllipticCurve | None) -> None:
    # covers READ-13
    key = rsa.generate_private_key(65537, 2048) if curve is None else ec.generate_private_key(curve)
    another = rsa.generate_private_key(65537, 2048) if curve is None else ec.generate_private_key(curve)
    public, private = _pem(key, tmp_path)
    sealed = seal(load_public_key(public), bytes(range(32)))
    assert unseal(load_private_key(f"file://{private}"), sealed) == bytes(range(32))
    for wrong in (sealed[:-1] + bytes([sealed[-1] ^ 1]), sealed[:40], b"", bytes(len(sealed))):
        with pytest.raises(ValueError):
            unseal(key, wrong)
    with pytest.raises(ValueError):
        unseal(another, sealed)


def test_a_payload_that_was_changed_does_not_open(tmp_path: Path) -> None:
    # covers READ-14
    public, private = _pem(rsa.generate_private_key(65537, 2048), tmp_path)
    encryptor, decryptor = Encryptor(["a"], KeyFiles(public)), Decryptor(KeyFiles(private))
    metadata, other = (MessageMetadata(producer_name="p", sequence_id=1, publish_time=1) for _ in range(2))
    before = metadata.ByteSize()
    payload = encryptor.encrypt(metadata, memoryview(b"secret"))
    assert len(payload) == 6 + 16
    assert metadata.ByteSize() + len(payload) == before + len(b"secret") + encryptor.overhead_bytes
    assert encryptor.encrypt(other, b"secret") != payload
    assert decryptor.decrypt(metadata, payload) == b"secret"
    for wrong in (payload[:-1] + b"x", payload[:3], b""):
        with pytest.raises(DecryptionError):
            decryptor.decrypt(metadata, wrong)
    metadata.encryption_param = b"short"
    with pytest.raises(DecryptionError):
        decryptor.decrypt(metadata, payload)


def test_keys_of_other_kinds_are_refused_without_a_word_of_them(tmp_path: Path) -> None:
    # covers READ-15
    key = rsa.generate_private_key(65537, 2048)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")))
    with pytest.raises(EncryptionKeyError, match=r"locked.pem is protected by a password"):
        load_private_key(str(locked))
    other = tmp_path / "dsa.pem"
    old = dsa.generate_private_key(2048)
    other.write_bytes(old.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(EncryptionKeyError, match="neither RSA nor of an elliptic curve"):
        load_private_key(str(other))
    other.write_bytes(b"-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n")
    with pytest.raises(EncryptionKeyError, match="holds no private key") as refused:
        load_private_key(str(other))
    assert "SECRET" not in str(refused.value)
    other.write_bytes(bytes(70_000))
    with pytest.raises(EncryptionKeyError, match="more than 65536 bytes"):
        load_public_key(str(other))


def test_places_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers READ-15
    for place in ("/etc/key.pem", "file:///etc/key.pem", "env:KEY"):
        check_place(place, is_private=True)
    pem = "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----"
    url = "data:application/x-pem-file;base64," + base64.b64encode(pem.encode()).decode()
    check_place(url, is_private=False)
    assert read_key(url) == pem.encode()
    for place in (pem, url, "key.pem", "file:key.pem", ""):
        with pytest.raises(ValueError, match="expected") as refused:
            check_place(place, is_private=True)
        assert "SECRET" not in str(refused.value)
    for place in ("data:,x", "data:;base64,?"):
        with pytest.raises(ValueError, match="data:"):
            check_place(place, is_private=False)
    monkeypatch.setenv("KEY", pem)
    assert read_key("env:KEY") == pem.encode()
    with pytest.raises(EncryptionKeyError, match=r"spark.executorEnv.NONE"):
        read_key("env:NONE")
