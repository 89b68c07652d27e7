"""Credentials as a connection uses them; HTTP requests of commands have them as headers (SEC-83: `rest`)."""

from typing import Final, Protocol

from spark_pulsar.client.deadlines import Deadline


class Credentials(Protocol):
    """Proof of who the client is. Thread-safe."""

    @property
    def method(self) -> str:
        """The name of the authentication method in CONNECT."""

    def data(self, deadline: Deadline, refused: bytes | None = None) -> bytes | None:
        """Returns the bytes to show to a broker, None for a method without any.

        `refused` are data that a broker no longer accepts: newer ones are returned if there are any. Raises
        CredentialsError when there are none, retriable errors when they cannot be had at the moment.
        """


class NoCredentials:
    """Credentials of a client that names no role, or shows only its certificate."""

    def __init__(self, method: str = "none") -> None:
        self._method: Final = method

    @property
    def method(self) -> str:
        """See `Credentials`."""
        return self._method

    def data(self, deadline: Deadline, refused: bytes | None = None) -> bytes | None:
        """See `Credentials`."""
        return None
