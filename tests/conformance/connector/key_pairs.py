"""Pairs of keys for encrypted messages, made with openssl as Pulsar's documentation tells."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple


class KeyPair(NamedTuple):
    """Files of a pair (PEM)."""

    public: str
    private: str


def rsa_pair(directory: Path, name: str = "rsa") -> KeyPair:
    """Makes an RSA pair."""
    return _pair(directory, name, ["genrsa"], ["2048"], "rsa")


def ec_pair(directory: Path, curve: str = "secp521r1") -> KeyPair:
    """Makes a pair of an elliptic curve, told by its parameters."""
    return _pair(directory, curve, ["ecparam", "-name", curve, "-genkey", "-param_enc", "explicit"], [], "ec")


def _pair(directory: Path, name: str, make: list[str], rest: list[str], kind: str) -> KeyPair:
    public, private = directory / f"{name}-public.pem", directory / f"{name}-private.pem"
    subprocess.run(["openssl", *make, "-out", private, *rest], check=True, capture_output=True)
    subprocess.run(["openssl", kind, "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    return KeyPair(str(public), str(private))
