"""Refusals of the admin API: an error with a status, answered as `{"reason": ...}` (T-1)."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from spark_pulsar.model.errors import PulsarError


class Refused(PulsarError):
    """A request that is answered with this status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Unauthenticated(Refused):
    """A request without credentials that hold (AU-6); the challenge names the schemes that it may use."""

    def __init__(self, reason: str, challenge: str) -> None:
        super().__init__(401, reason)
        self.challenge = challenge


def refusal(error: PulsarError) -> Response:
    """Returns the answer to a refused request."""
    status = error.status if isinstance(error, Refused) else error.http_status
    headers = {"WWW-Authenticate": error.challenge} if isinstance(error, Unauthenticated) and error.challenge else None
    return JSONResponse({"reason": error.message}, status, headers)
