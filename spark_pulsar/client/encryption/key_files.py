"""Places of key files: a file for all names of keys, or one for each (READ-15). Keys are PEM: RSA or of elliptic
curves. One that cannot be used is an error (SINK-9, READ-14)."""

from __future__ import annotations

import base64
import binascii
import os
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spark_pulsar.client.errors import EncryptionKeyError

MAX_KEY_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Places of the public, or the private, keys: an absolute path, `file:///path`, `env:NAME`, or a `data:` URL.

    They are names of secrets, and no secrets; only a public key may be in a `data:` URL.
    """

    for_all: str = ""
    by_name: tuple[tuple[str, str], ...] = ()

    def place_of(self, name: str) -> str:
        """Returns the place of the key of this name, empty if there is none."""
        return dict(self.by_name).get(name, self.for_all)


def check_place(place: str, *, is_private: bool) -> None:
    """Refuses a text that names no place, or holds a private key itself. Raises ValueError, which quotes nothing."""
    if place.startswith("data:"):
        if is_private:
            raise ValueError("a private key must not be among the options: expected a path, file:///path or env:NAME")
        _data_url_bytes(place)
    elif "-----BEGIN" in place:
        raise ValueError("a key must not be among the options: expected a path, file:///path or env:NAME")
    elif not place.startswith("env:") and not _path(place).is_absolute():
        raise ValueError("expected an absolute path, file:///path or env:NAME")


def read_key(place: str) -> bytes:
    """Returns the PEM of a key. Raises EncryptionKeyError, which names the place, never the key."""
    if place.startswith("data:"):
        return _data_url_bytes(place)
    if place.startswith("env:"):
        name = place.removeprefix("env:")
        text = os.environ.get(name, "")
        if not text:
            raise EncryptionKeyError(
                f"the environment variable {name!r} with a key is not set in this process; on Spark's executors "
                f"spark.executorEnv.{name} sets it"
            )
        return text.encode()
    path = _path(place)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_BYTES + 1)
    except OSError as error:
        raise EncryptionKeyError(f"a key cannot be read from {path}: {error.strerror}") from None
    if len(data) > MAX_KEY_BYTES:
        raise EncryptionKeyError(f"{path} holds no key: it has more than {MAX_KEY_BYTES} bytes")
    return data


def place_text(place: str) -> str:
    """Returns the place as errors name it: a `data:` URL without its content."""
    return "the data: URL" if place.startswith("data:") else place


def _path(place: str) -> Path:
    return Path(urllib.parse.unquote(urllib.parse.urlsplit(place).path) if place.startswith("file:") else place)


def _data_url_bytes(url: str) -> bytes:
    head, separator, body = url.partition(",")
    if not separator or not head.endswith(";base64"):
        raise ValueError("expected data:application/x-pem-file;base64,… of a public key")
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error:
        raise ValueError("a data: URL does not hold base64") from None
