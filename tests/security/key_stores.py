"""Java's key stores of the tests' certificates, made by Java's own keytool."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

PASSWORD = "store-s3cret"


def keytool(*arguments: str | Path) -> None:
    """Runs keytool; the test is skipped where Java lacks it."""
    program = shutil.which("keytool")
    if program is None:
        pytest.skip("keytool of Java is not installed")
    subprocess.run([program, *map(str, arguments)], check=True, capture_output=True)


def trust_store(kind: str, authority: Path, path: Path) -> Path:
    """A store of one authority."""
    of_store = ("-keystore", path, "-storetype", kind, "-storepass", PASSWORD)
    keytool("-importcert", "-noprompt", "-alias", "authority", "-file", authority, *of_store)
    return path


def key_store(kind: str, files: tuple[Path, Path], path: Path) -> Path:
    """A store of a certificate, its chain and its key, all from PEM files."""
    certificate, *chain = x509.load_pem_x509_certificates(files[0].read_bytes())
    key = load_pem_private_key(files[1].read_bytes(), None)
    secret = BestAvailableEncryption(PASSWORD.encode())
    between = path.with_suffix(".between")
    between.write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, certificate, chain, secret))  # type: ignore[arg-type]
    source = ("-srckeystore", between, "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD)
    target = ("-destkeystore", path, "-deststoretype", kind, "-deststorepass", PASSWORD)
    keytool("-importkeystore", "-noprompt", *source, *target)
    return path
