"""Calls of the admin REST API from the command line; a refusal prints its reason on standard error, with status 1."""

import json
import logging
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus
from http.client import BadStatusLine, HTTPException
from typing import Any, Final
from urllib.parse import urlencode

import typer

from spark_pulsar.cli.access.access import TRUST_HINT, Access, credentials_failure
from spark_pulsar.client.errors import CredentialsError
from spark_pulsar.model.errors import PulsarError

TIMEOUT_S = 60
_LOG: Final = logging.getLogger("spark_pulsar.admin")
NO_BODY = object()


class Admin:
    """The admin API at one address, the `ctx.obj` of every command."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._url = access.url
        self._opened: tuple[urllib.request.OpenerDirector, dict[str, str]] | None = None

    def get(self, path: str, **query: object) -> Any:
        """Sends GET and returns the parsed answer; None when it is empty."""
        return self._call("GET", path, NO_BODY, query)

    def put(self, path: str, body: object = NO_BODY, **query: object) -> Any:
        """Sends PUT with an optional JSON body."""
        return self._call("PUT", path, body, query)

    def post(self, path: str, body: object = NO_BODY, **query: object) -> Any:
        """Sends POST with an optional JSON body."""
        return self._call("POST", path, body, query)

    def delete(self, path: str, **query: object) -> Any:
        """Sends DELETE."""
        return self._call("DELETE", path, NO_BODY, query)

    def _call(self, method: str, path: str, body: object, query: dict[str, object]) -> Any:
        words = {key: _word(value) for key, value in query.items() if value is not None}
        url = f"{self._url}{path}" + (f"?{urlencode(words)}" if words else "")
        data = None if body is NO_BODY else json.dumps(body).encode()
        headers = {"Accept": "application/json"} | ({} if data is None else {"Content-Type": "application/json"})
        answer = self._answer(urllib.request.Request(url, data=data, method=method, headers=headers))
        return None if answer is None else _parsed(answer[1].decode())

    def fetch(self, path: str, *, may_be_missing: bool = False) -> tuple[dict[str, str], bytes] | None:
        """Sends GET and returns headers, their names in lower case, and body as bytes; None for 404 if it may be
        missing."""
        return self._answer(urllib.request.Request(self._url + path), may_be_missing=may_be_missing)

    def _answer(
        self, request: urllib.request.Request, *, may_be_missing: bool = False
    ) -> tuple[dict[str, str], bytes] | None:
        try:
            opener, headers = self._open()
            for name, value in headers.items():
                request.add_header(name, value)
            _LOG.debug("%s %s", request.get_method(), request.full_url)
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                _LOG.debug("status %d", answer.status)
                _print_warnings(answer.headers.get_all("Warning", ()))
                return {name.lower(): value for name, value in answer.headers.items()}, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                if may_be_missing and error.code == HTTPStatus.NOT_FOUND:
                    return None
                text = _reason(error.read().decode(errors="replace"), error.code)
                # With 401 Apache Pulsar also refuses a known role that is no super user.
                is_unknown = error.code == HTTPStatus.UNAUTHORIZED and "uthenticat" in text
                hint = f"; {self._access.hint}" if is_unknown else ""
                raise _failed(text + hint) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            said = repr(reason) if isinstance(reason, HTTPException) else reason
            raise _failed(f"no answer from {self._url}: {said}{_hint(reason)}") from error
        except CredentialsError as error:
            raise _failed(credentials_failure(error)) from error
        except PulsarError as error:  # certificates that cannot be read
            raise _failed(str(error)) from error

    def _open(self) -> tuple[urllib.request.OpenerDirector, dict[str, str]]:
        if self._opened is None:
            context = self._access.tls_context()
            handlers = [urllib.request.HTTPSHandler(context=context)] if context else []
            opener = urllib.request.build_opener(_Redirects(), *handlers)
            self._opened = opener, self._access.headers()
        return self._opened


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects, to another broker of a cluster, that take the credentials along: never from HTTPS to HTTP (SEC-83)."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https://") and not newurl.startswith("https://"):
            fp.close()
            raise urllib.error.URLError(f"it redirects from HTTPS to {newurl.partition('?')[0]}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _print_warnings(warnings: Sequence[str]) -> None:
    """Prints what a broker says beside its answer: a policy that it stores and that has no effect, for example."""
    for warning in warnings:
        found = re.fullmatch(r'\d{3} \S+ "(.*)"', warning)
        typer.echo(f"spark-pulsar: note: {found[1] if found else warning}", err=True)


def _hint(reason: object) -> str:
    """Returns advice for whoever got no answer."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"; {TRUST_HINT}"
    if isinstance(reason, ssl.SSLError):
        return "; is it a port of TLS? Without it the address begins with http://"
    if isinstance(reason, BadStatusLine | ConnectionResetError):  # also of who closes without an answer
        return "; is it the admin API's port, and one without TLS? It is usually 8080, for https:// 8443"
    if isinstance(reason, ConnectionRefusedError):
        return "; no broker listens there, another one is named by --admin-url, --profile or PULSAR_ADMIN_URL"
    return ""


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
        reason = answer.get("reason") or answer.get("message")  # the latter from a proxy in front of a broker
        if reason:
            return str(reason)
    return f"HTTP status {status}" + (f": {text}" if text else "")


def _failed(text: str) -> typer.Exit:
    typer.echo(f"spark-pulsar: {text}", err=True)
    return typer.Exit(1)
