"""Basic authentication: users and passwords of an htpasswd file (AU-4, SEC-21)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from passlib.context import CryptContext
from passlib.hash import apr_md5_crypt, bcrypt, des_crypt

from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.server.configuration.reading import InvalidConfiguration

from .provider import Authenticated
from .watched_file import WatchedFile, path_of_url

if TYPE_CHECKING:
    from typing import Self

    from spark_pulsar.server.configuration.server_config import ServerConfig

    from .provider import Credentials

MAX_PASSWORD_BYTES: Final = 1024
"""Longest password: hashes take time by its length."""
MAX_USERS_BYTES: Final = 16 * 1024 * 1024
"""Largest file of users."""
_BCRYPT_BYTES: Final = 72
"""Bytes of a password that bcrypt hashes; htpasswd and others cut off the rest, too."""
_REFUSED: Final = "unknown user or wrong password"
_LOG: Final = logging.getLogger("spark_pulsar.security")
_HASHES: Final = CryptContext(schemes=[bcrypt, apr_md5_crypt, des_crypt])
"""Forms of hashes: those of Apache Pulsar 4.0.8, apr1 and crypt, and bcrypt."""
_NOBODYS: Final = "$apr1$nobodyno$6sNN5s3Tl6DN54.v.9.K2."
"""Hash that passwords are compared with, never equal, while there are no users."""


class BasicProvider:
    """Provider of the method `basic`: the user is the role."""

    method: Final = "basic"
    is_slow: Final = True

    def __init__(self, conf: str) -> None:
        """`conf`: path or `file:` URL of an htpasswd file, or its text in base64, alone or as a `data:` URL. Raises
        InvalidConfiguration."""
        self._lock = threading.Lock()
        self._key = os.urandom(16)
        path = _path(conf)
        self._file = None if path is None else WatchedFile("basicAuthConf", path, MAX_USERS_BYTES)
        self._users = parse_users(_decoded(conf) if self._file is None else self._file.read())

    @classmethod
    def from_config(cls, config: ServerConfig) -> Self:
        """Makes the provider of a broker's configuration. Raises InvalidConfiguration."""
        if not config.basic_auth_conf:
            raise InvalidConfiguration("basicAuthConf is not set; basic authentication needs an htpasswd file")
        return cls(config.basic_auth_conf)

    def authenticate(self, credentials: Credentials, now_ms: int) -> Authenticated:
        """Returns the user of `user:password`. An unknown user is refused after as much work as a known one. Checks
        wait in a queue that is fair by host (SEC-88: `check_queue`)."""
        del now_ms  # passwords do not expire
        name, colon, password = credentials.data.partition(b":")
        if not colon or not name or not password or len(password) > MAX_PASSWORD_BYTES or b"\0" in password:
            raise AuthenticationError("no user:password, or a password that is too long")
        try:
            user = name.decode()
        except UnicodeDecodeError:
            raise AuthenticationError("a user that is no text") from None
        users = self._current()
        hashed = users.get(user)
        fits = _fits(password, hashed or self._somebodys(user, users))
        if hashed is None or not fits:
            raise AuthenticationError(_REFUSED)
        return Authenticated(user)

    def from_headers(self, headers: Mapping[str, str], certificate: bytes | None) -> bytes | None:
        """Returns the `user:password` of `Authorization: Basic`."""
        del certificate
        scheme, _, encoded = headers.get("authorization", "").partition(" ")
        if scheme.lower() != self.method:
            return None
        try:
            return base64.b64decode(encoded.strip(), validate=True)
        except (binascii.Error, ValueError):
            return b""  # which is refused

    def _somebodys(self, unknown: str, users: Mapping[str, str]) -> str:
        """Chooses the hash that an unknown user's password is compared with in vain: one of the file, the same one
        each time. So the time of a refusal says nothing, although hashes take different times."""
        digest = hashlib.blake2b(unknown.encode(), key=self._key, digest_size=8).digest()
        hashes = list(users.values()) or [_NOBODYS]
        return hashes[int.from_bytes(digest) % len(hashes)]

    def _current(self) -> Mapping[str, str]:
        """Returns the users, read again when the file was changed. A file that cannot be read changes nothing."""
        if self._file is None:
            return self._users
        with self._lock:
            if self._file.has_changed():
                try:
                    self._users = parse_users(self._file.read())
                    _LOG.info("%s: read again, %d users", self._file.path, len(self._users))
                except InvalidConfiguration as error:
                    _LOG.error("%s; the users known before remain", error)
            return self._users


def parse_users(data: bytes) -> dict[str, str]:
    """Reads lines `user:hash`; empty ones and comments (`#`) are skipped. Raises InvalidConfiguration, with the number
    of the line and without its text."""
    users: dict[str, str] = {}
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise InvalidConfiguration("basicAuthConf: want lines USER:HASH in UTF-8") from None
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        user, colon, hashed = text.partition(":")
        if not user or not colon or not _is_hash(hashed):
            wanted = "want USER:HASH with a hash of bcrypt, apr1 or crypt, as of `htpasswd -B`"
            raise InvalidConfiguration(f"basicAuthConf, line {number}: {wanted}")
        users[user] = hashed
    return users


def _is_hash(text: str) -> bool:
    handler = _HASHES.identify(text, resolve=True)
    if handler is None:
        return False
    try:
        return handler.from_string(text).checksum is not None
    except ValueError:
        return False


def _fits(password: bytes, hashed: str) -> bool:
    is_bcrypt = _HASHES.identify(hashed) == bcrypt.name
    try:
        return bool(_HASHES.verify(password[:_BCRYPT_BYTES] if is_bcrypt else password, hashed))
    except ValueError:  # a password that no hash can be of
        return False


def _path(conf: str) -> Path | None:
    """Returns the file that the value names; None when it holds the users itself."""
    if conf.startswith("file:"):
        return path_of_url(conf)
    if conf.startswith("data:"):
        return None
    path = Path(conf)
    try:
        return path if path.exists() else None
    except (OSError, ValueError):  # longer than names are
        return None


def _decoded(conf: str) -> bytes:
    encoded = conf
    if conf.startswith("data:"):
        head, comma, encoded = conf.partition(",")
        if not comma or not head.endswith(";base64"):
            raise InvalidConfiguration("basicAuthConf: want data:;base64,... of an htpasswd file")
    try:
        data = base64.b64decode(encoded, validate=True)
        data.decode()
    except (binascii.Error, ValueError):
        text = "basicAuthConf: want the path of an htpasswd file, file:///path, data:;base64,... or base64"
        raise InvalidConfiguration(f"{text}; there is no such file, and it is no text in base64") from None
    return data
