"""Reads of the admin API (REST), for the little that the binary protocol does not say: policies of topics."""

import base64
import json
from http import HTTPStatus
from typing import Any, Final

from spark_pulsar.client.connections.config import ClientConfig, own_certificate
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectFailed, UnexpectedReply
from spark_pulsar.client.rest import RestApi, RestError
from spark_pulsar.model.errors import AuthorizationError

TIMEOUT_MS: Final = 5_000


def read_json(config: ClientConfig, url: str) -> Any:
    """Returns the JSON at `url`, None for an empty answer. The client shows the credentials that it shows to brokers.

    Raises AuthorizationError where the role may not read it, ConnectFailed, TlsError, CredentialsError, or
    UnexpectedReply for any other answer.
    """
    context = own_certificate(config.tls, config.authentication).context() if url.startswith("https:") else None
    try:
        text = RestApi(url, _headers(config), context, timeout_s=TIMEOUT_MS / 1000).call("GET", "").body
    except RestError as error:
        if error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise AuthorizationError(f"{url} answers {error}") from None
        if error.status:
            raise UnexpectedReply(f"{url} answers {error}") from None
        raise ConnectFailed(f"cannot read {url}: {error}") from None
    try:
        return json.loads(text) if text else None
    except ValueError:
        raise UnexpectedReply(f"{url} answers no JSON: {text[:100]!r}") from None


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
