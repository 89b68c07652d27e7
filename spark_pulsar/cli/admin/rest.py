"""Calls of the admin REST API from the command line; a refusal prints its reason on standard error, with status 1.
`client.rest` sends them with the caller's credentials (SEC-83)."""

import re
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from http.client import BadStatusLine, HTTPException
from threading import Thread
from typing import Any, Final

import typer

from spark_pulsar.cli.access.access import TRUST_HINT, Access, credentials_failure
from spark_pulsar.client.errors import CredentialsError
from spark_pulsar.client.rest import NO_BODY, Answer, RestApi, RestError
from spark_pulsar.model.errors import PulsarError

_JSON: Final = "application/json"
_PORTS: Final = "is it the admin API's port, and one without TLS? It is usually 8080, for https:// 8443"
_SILENCE_S: Final = 3.0
"""Time after which a peer that has not answered must answer the simplest request, or is taken for something else."""
_SIMPLEST: Final = "/admin/v2/brokers/version"
"""A request that every role may make."""


class _Call(Thread):
    """A call in a thread of its own, which the end of the command does not wait for."""

    def __init__(self, call: Callable[[], Answer]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self._answer: Answer | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Makes the call."""
        try:
            self._answer = self._call()
        except BaseException as error:  # noqa: BLE001 raised by answer()
            self._error = error

    def answer(self) -> Answer:
        """Returns the answer, or raises the error of the call."""
        if self._error is not None:
            raise self._error
        assert self._answer is not None
        return self._answer


class Admin:
    """The admin API at one address, the `ctx.obj` of every command."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._api: RestApi | None = None

    def get(self, path: str, **query: object) -> Any:
        """Sends GET and returns the parsed answer; None when it is empty."""
        return self._answer("GET", path, query=query).value

    def get_or_refusal(self, path: str, **query: object) -> tuple[Any, RestError | None]:
        """Sends GET and returns the parsed answer, or else the refusal: for commands that go on without it. Ends the
        command when there is no answer."""
        answer = self.answer_or_error(path, query)
        if isinstance(answer, RestError):
            self.check_answered(answer)
            return None, answer
        return answer.value, None

    def answer_or_error(
        self, path: str, query: dict[str, object] | None = None, accept: str = _JSON
    ) -> Answer | RestError:
        """Sends GET and returns the answer, or else the error, that of no answer too. Several threads may call it once
        a call has been answered."""
        try:
            return self._sent("GET", path, query=query, accept=accept)
        except RestError as error:
            return error

    def check_answered(self, error: RestError) -> None:
        """Ends the command where an error is that of no answer."""
        if not error.status:
            raise self._failed(error) from error

    def put(self, path: str, body: object = NO_BODY, **query: object) -> Any:
        """Sends PUT with an optional JSON body."""
        return self._answer("PUT", path, body, query).value

    def post(self, path: str, body: object = NO_BODY, **query: object) -> Any:
        """Sends POST with an optional JSON body."""
        return self._answer("POST", path, body, query).value

    def delete(self, path: str, **query: object) -> Any:
        """Sends DELETE."""
        return self._answer("DELETE", path, query=query).value

    def fetch(self, path: str, *, may_be_missing: bool = False) -> tuple[dict[str, str], bytes] | None:
        """Sends GET and returns headers, their names in lower case, and body as bytes; None for 404 if it may be
        missing."""
        try:
            headers, body = self._sent("GET", path)
        except RestError as error:
            if may_be_missing and error.status == HTTPStatus.NOT_FOUND:
                return None
            raise self._failed(error) from error
        return {name.lower(): value for name, value in headers}, body

    def _answer(self, method: str, path: str, body: object = NO_BODY, query: dict[str, object] | None = None) -> Answer:
        try:
            return self._sent(method, path, body, query, _JSON)
        except RestError as error:
            raise self._failed(error) from error

    def _sent(
        self, method: str, path: str, body: object = NO_BODY, query: dict[str, object] | None = None, accept: str = ""
    ) -> Answer:
        try:
            if self._api is None:
                access = self._access
                self._api = RestApi(access.url, access.headers(), access.tls_context())
        except CredentialsError as error:
            raise _failed(credentials_failure(error)) from error
        except PulsarError as error:  # certificates that cannot be read
            raise _failed(str(error)) from error
        answer = self._answered(_Call(partial(self._api.call, method, path, body, query, accept)))
        _print_warnings([value for name, value in answer.headers if name.lower() == "warning"])
        return answer

    def _answered(self, call: _Call) -> Answer:
        """Waits for an answer: a deletion may take long, but a peer that is silent altogether is most likely none."""
        call.start()
        call.join(_SILENCE_S)
        if call.is_alive():
            access = self._access
            probe = RestApi(access.url, access.headers(), access.tls_context(), timeout_s=_SILENCE_S)
            try:
                probe.call("GET", _SIMPLEST)
            except RestError as error:
                if not error.status and call.is_alive():
                    raise
            call.join()
        return call.answer()

    def _failed(self, error: RestError) -> typer.Exit:
        if error.status:
            text = refusal_text(error)
            # With 401 Apache Pulsar also refuses a known role that is no super user.
            is_unknown = error.status == HTTPStatus.UNAUTHORIZED and "uthenticat" in text
            return _failed(text + (f"; {self._access.hint}" if is_unknown else ""))
        cause = error.cause
        said = repr(cause) if isinstance(cause, HTTPException) else cause
        return _failed(f"no answer from {self._access.url}: {said}{_hint(cause)}")


def refusal_text(error: RestError) -> str:
    """Returns the reason of a refusal, or else its status."""
    return error.reason or f"HTTP status {error.status}" + (f": {error.text}" if error.text else "")


def _print_warnings(warnings: Sequence[str]) -> None:
    """Prints the broker's warnings, for example about a policy that it stores without effect."""
    for warning in warnings:
        match = re.fullmatch(r'\d{3} \S+ "(.*)"', warning)
        typer.echo(f"spark-pulsar: note: {match[1] if match else warning}", err=True)


def _hint(reason: object) -> str:
    """Returns advice for a request without an answer."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"; {TRUST_HINT}"
    if isinstance(reason, ssl.SSLError):
        return "; is it a port of TLS? Without it the address begins with http://"
    if isinstance(reason, BadStatusLine | ConnectionResetError):  # also of who closes without an answer
        return f"; {_PORTS}"
    if isinstance(reason, TimeoutError):
        return f"; it accepts connections and does not answer: {_PORTS}"
    if isinstance(reason, ConnectionRefusedError):
        return "; no broker listens there, another one is named by --admin-url, --profile or PULSAR_ADMIN_URL"
    return ""


def _failed(text: str) -> typer.Exit:
    typer.echo(f"spark-pulsar: {text}", err=True)
    return typer.Exit(1)
