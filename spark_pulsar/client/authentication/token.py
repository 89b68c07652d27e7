"""Token authentication (AuthenticationToken): a JSON web token as text, in a file or in an environment variable."""

from typing import Final

from spark_pulsar.client.authentication.sources import is_elsewhere, parse_params, read_source
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import CredentialsError
from spark_pulsar.client.secret import Secret


class TokenCredentials:
    """A token, read anew from its file or variable for each connection. See `Credentials`."""

    method: Final = "token"

    def __init__(self, params: Secret) -> None:
        """`params`: `token:TEXT`, `file:///path`, `env:NAME`, `{"token": "TEXT"}` or the token itself. Raises
        ValueError."""
        if not is_elsewhere(params):
            _token(params)
        self._params = params

    def data(self, deadline: Deadline, refused: bytes | None = None) -> bytes | None:
        """See `Credentials`."""
        try:
            return _token(read_source(self._params)).reveal().encode()
        except ValueError as error:
            raise CredentialsError(f"no token: {error}") from None


def _token(text: Secret) -> Secret:
    raw = text.reveal().strip()
    if raw.startswith("{"):
        raw = parse_params(text).get("token", "")
    token = raw.removeprefix("token:").strip()
    if not token or not token.isascii() or any(character.isspace() for character in token):
        raise ValueError("expected token:TEXT, file:///path, env:NAME or a token, in ASCII and without white space")
    return Secret(token)
