"""Addresses of a broker: free, or what answers there, with the TLS and the credentials of this command."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

import typer

from spark_pulsar.cli.access.access import TRUST_HINT, Access, admin_access, broker_access, credentials_failure
from spark_pulsar.cli.access.options import DEFAULT_ADMIN_URL, DEFAULT_SERVICE_URL, AccessOptions
from spark_pulsar.cli.doctor.findings import Finding, State
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.connection import Connection
from spark_pulsar.client.connections.service_url import Address
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectionLost, CredentialsError, OperationTimeout, TlsError
from spark_pulsar.model.errors import AuthenticationError, PulsarError

TIMEOUT_MS: Final = 5_000
_MOST_BYTES: Final = 1 << 16
_START: Final = "start one: spark-pulsar broker"


def check_addresses(options: AccessOptions, admin_url: str | None) -> Iterator[Finding]:
    """Checks the service URL and the admin API."""
    try:
        yield from _service(broker_access(options))
    except typer.BadParameter as error:
        yield Finding("service URL", State.FAIL, error.message)
    try:
        yield _admin(admin_access(replace(options, url=admin_url)))
    except typer.BadParameter as error:
        yield Finding("admin API", State.WARN, error.message, "give its address by --admin-url")


def _service(access: Access) -> Iterator[Finding]:
    try:
        config = ClientConfig(
            access.url,
            connect_timeout_ms=TIMEOUT_MS,
            operation_timeout_ms=TIMEOUT_MS,
            authentication=access.authentication,
            tls=access.tls,
            listener_name=access.listener_name,
        )
    except (PulsarError, ValueError) as error:
        yield Finding("service URL", State.FAIL, str(error), "like pulsar://host:6650 or pulsar+ssl://host:6651")
        return
    for address in config.addresses:
        yield _broker(access, config, address)


def _broker(access: Access, config: ClientConfig, address: Address) -> Finding:
    check, began = f"broker {address}", perf_counter()
    try:
        Connection.open(address, "", config, Deadline(TIMEOUT_MS, "connecting", str(address))).close()
    except CredentialsError as error:
        return Finding(check, State.FAIL, credentials_failure(error))
    except AuthenticationError as error:
        return Finding(check, State.FAIL, str(error), access.hint)
    except TlsError as error:
        return Finding(check, State.FAIL, str(error), TRUST_HINT)
    except (ConnectionLost, OperationTimeout) as error:
        if access.url == DEFAULT_SERVICE_URL and not _listens(address.host, address.port):
            return Finding(check, State.OK, "free: no broker listens", _START)
        return Finding(check, State.FAIL, str(error), f"see whether it runs, and the way to it; or {_START}")
    except PulsarError as error:
        return Finding(check, State.FAIL, str(error))
    how = "TLS" if access.uses_tls else "no TLS"
    who = access.authentication.plugin or "no credentials"
    return Finding(check, State.OK, f"answers in {(perf_counter() - began) * 1000:.0f} ms, {how}, {who}")


def _admin(access: Access) -> Finding:
    check = f"admin API {access.url}"
    place = urlsplit(access.url)
    port = place.port or (443 if access.uses_tls else 80)
    try:
        version = _fetch(access, "brokers/version")  # every role may see it
        _fetch(access, "clusters")
    except CredentialsError as error:
        return Finding(check, State.FAIL, credentials_failure(error))
    except TlsError as error:
        return Finding(check, State.FAIL, str(error), TRUST_HINT)
    except urllib.error.HTTPError as error:
        with error:
            text = f"answers {error.code}: {_reason(error.read(_MOST_BYTES))}"
        return Finding(check, State.FAIL, text, access.hint if error.code in (401, 403) else "")
    except (http.client.HTTPException, OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if not _listens(place.hostname or "", port):
            if access.url == DEFAULT_ADMIN_URL:
                return Finding(check, State.OK, "free: no broker listens", _START)
            return Finding(check, State.FAIL, f"cannot connect: {reason}", f"see whether it runs; or {_START}")
        text = f"something else listens there: {reason}"
        if access.uses_tls:
            return Finding(check, State.FAIL, f"no TLS with it: {reason}", TRUST_HINT)
        advice = "the admin API's port is usually 8080, the service URL's 6650; another program may have taken the port"
        return Finding(check, State.FAIL, text, advice)
    return Finding(check, State.OK, version if len(version) < 80 else "answers")


def _fetch(access: Access, path: str) -> str:
    request = urllib.request.Request(f"{access.url}/admin/v2/{path}", headers=access.headers())
    with urllib.request.urlopen(request, timeout=TIMEOUT_MS / 1000, context=access.tls_context()) as answer:
        body: bytes = answer.read(_MOST_BYTES)
    return body.decode(errors="replace").strip()


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["reason"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()[:200]


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=TIMEOUT_MS / 1000).close()
    except OSError:
        return False
    return True
