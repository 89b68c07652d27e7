"""Basic authentication (AuthenticationBasic): a user and a password."""

from typing import Final

from spark_pulsar.client.authentication.sources import is_elsewhere, parse_params, read_source
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import CredentialsError
from spark_pulsar.client.secret import Secret


class BasicCredentials:
    """A user and a password, read anew from their file or variable for each connection. See `Credentials`."""

    method: Final = "basic"

    def __init__(self, params: Secret) -> None:
        """`params`: `{"userId": "…", "password": "…"}`, or `file:///path` or `env:NAME` of it. Raises ValueError."""
        if not is_elsewhere(params):
            _user_and_password(params)
        self._params = params

    def data(self, deadline: Deadline, refused: bytes | None = None) -> bytes | None:
        """See `Credentials`."""
        try:
            return _user_and_password(read_source(self._params)).reveal().encode()
        except ValueError as error:
            raise CredentialsError(f"no user and password: {error}") from None


def _user_and_password(text: Secret) -> Secret:
    params = parse_params(text)
    user = params.get("userId") or params.get("username", "")
    if not user or "password" not in params or ":" in user:
        raise ValueError('expected {"userId": "...", "password": "..."}, the user without a colon')
    return Secret(f"{user}:{params['password']}")
