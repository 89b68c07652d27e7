"""Reads of the admin API (REST), for the little that the binary protocol does not say: policies of topics."""

import base64
import json
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final

from spark_pulsar.client.connections.config import ClientConfig, own_certificate
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectFailed, UnexpectedReply
from spark_pulsar.model.errors import AuthorizationError

TIMEOUT_MS: Final = 5_000


def read_json(config: ClientConfig, url: str) -> Any:
    """Returns the JSON at `url`, None for an empty answer. The client shows the credentials that it shows to brokers.

    Raises AuthorizationError where the role may not read it, ConnectFailed, TlsError, CredentialsError, or
    UnexpectedReply for any other answer.
    """
    request = urllib.request.Request(url, headers=_headers(config))
    try:
        with _opener(config, url).open(request, timeout=TIMEOUT_MS / 1000) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        with error:
            if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                raise AuthorizationError(f"{url} answers {error.code} {error.reason}") from None
            raise UnexpectedReply(f"{url} answers {error.code} {error.reason}") from None
    except (OSError, HTTPException, UnicodeError) as error:
        raise ConnectFailed(f"cannot read {url}: {error}") from None
    try:
        return json.loads(text) if text else None
    except ValueError:
        raise UnexpectedReply(f"{url} answers no JSON: {text[:100]!r}") from None


def _opener(config: ClientConfig, url: str) -> urllib.request.OpenerDirector:
    if not url.startswith("https:"):
        return urllib.request.build_opener()
    context = own_certificate(config.tls, config.authentication).context()
    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _Encrypted())


class _Encrypted(urllib.request.HTTPRedirectHandler):
    """Redirects from broker to broker, none of which ends the encryption: requests carry credentials."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not newurl.startswith("https:"):
            raise ConnectFailed(f"{req.full_url} answers with a redirect to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _headers(config: ClientConfig) -> dict[str, str]:
    credentials = config.authentication.credentials()
    if credentials.method == "none":
        return {}
    method = {"X-Pulsar-Auth-Method-Name": credentials.method}
    shown = credentials.data(Deadline(TIMEOUT_MS, "getting credentials", config.service_url))
    if shown is None:
        return method
    kind, text = ("Bearer", shown) if credentials.method == "token" else ("Basic", base64.b64encode(shown))
    return {"Authorization": f"{kind} {text.decode()}"} | method
