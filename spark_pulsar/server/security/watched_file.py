"""Files of users (SEC-21) and keys, read again when they change."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from spark_pulsar.server.configuration.reading import InvalidConfiguration

_Stamp = tuple[int, int, int, int]
"""Times, size and inode of a file: other ones when it was changed."""


class WatchedFile:
    """A file that a key of the configuration names."""

    def __init__(self, key: str, path: Path, max_bytes: int) -> None:
        self.path = path
        self._key = key
        self._max_bytes = max_bytes
        self._stamp: _Stamp | None = None

    def read(self) -> bytes:
        """Reads the file; `has_changed` is about changes from now on. Raises InvalidConfiguration."""
        self._stamp = self._read_stamp()  # first: a change while it is read is seen by the next check
        try:
            with self.path.open("rb") as file:
                data = file.read(self._max_bytes + 1)
        except OSError as error:
            raise InvalidConfiguration(f"{self._key}: cannot read {self.path}: {error.strerror}") from None
        if len(data) > self._max_bytes:
            raise InvalidConfiguration(f"{self._key}: {self.path} is larger than {self._max_bytes:,} bytes")
        return data

    def has_changed(self) -> bool:
        """Returns whether the file has changed since the last `read`, whether that succeeded or failed."""
        return self._read_stamp() != self._stamp

    def _read_stamp(self) -> _Stamp | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def path_of_url(url: str) -> Path:
    """Returns the path of a `file:` URL."""
    return Path(unquote(urlsplit(url).path))
