"""Calls of the admin REST API from the command line; a refusal is its reason on standard error, and status 1."""

import json
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode

import typer

TIMEOUT_S = 60
NO_BODY = object()


class Admin:
    """The admin API at one address. Kept as `ctx.obj` of every command."""

    def __init__(self, url: str) -> None:
        self._url = url.strip().rstrip("/")
        if not self._url.startswith(("http://", "https://")):
            raise typer.BadParameter(f"want http://HOST:PORT, got {url!r}", param_hint="--admin-url")

    def get(self, path: str, **query: object) -> Any:
        """The answer, parsed; None for what is not set."""
        return self._call("GET", path, NO_BODY, query)

    def put(self, path: str, body: object = NO_BODY, **query: object) -> Any:
        """PUT with an optional JSON body."""
        return self._call("PUT", path, body, query)

    def post(self, path: str, body: object = NO_BODY, **query: object) -> Any:
        """POST with an optional JSON body."""
        return self._call("POST", path, body, query)

    def delete(self, path: str, **query: object) -> Any:
        """DELETE."""
        return self._call("DELETE", path, NO_BODY, query)

    def _call(self, method: str, path: str, body: object, query: dict[str, object]) -> Any:
        words = {key: _word(value) for key, value in query.items() if value is not None}
        url = f"{self._url}{path}" + (f"?{urlencode(words)}" if words else "")
        data = None if body is NO_BODY else json.dumps(body).encode()
        headers = {"Accept": "application/json"} | ({} if data is None else {"Content-Type": "application/json"})
        answer = self._answer(urllib.request.Request(url, data=data, method=method, headers=headers))
        return None if answer is None else _parsed(answer[1].decode())

    def fetch(self, path: str, *, may_be_missing: bool = False) -> tuple[dict[str, str], bytes] | None:
        """Headers, their names in lower case, and body of a GET that is answered with bytes. None, if it may be
        missing, when there is nothing (404)."""
        return self._answer(urllib.request.Request(self._url + path), may_be_missing=may_be_missing)

    def _answer(
        self, request: urllib.request.Request, *, may_be_missing: bool = False
    ) -> tuple[dict[str, str], bytes] | None:
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return {name.lower(): value for name, value in answer.headers.items()}, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                if may_be_missing and error.code == HTTPStatus.NOT_FOUND:
                    return None
                raise _failed(_reason(error.read().decode(errors="replace"), error.code)) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            said = repr(reason) if isinstance(reason, HTTPException) else reason
            raise _failed(f"no answer from {self._url}: {said}") from error


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parsed(text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _reason(text: str, status: int) -> str:
    answer = _parsed(text)
    if isinstance(answer, dict):
        reason = answer.get("reason") or answer.get("message")  # the latter from what is in front of a broker
        if reason:
            return str(reason)
    return f"HTTP status {status}" + (f": {text}" if text else "")


def _failed(text: str) -> typer.Exit:
    typer.echo(f"spark-pulsar: {text}", err=True)
    return typer.Exit(1)
