"""The two clusters of a move: the client and the admin API of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import typer

from spark_pulsar.cli.access.access import Access, admin_access, broker_access, check_admin_url, check_service_url
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.admin.rest import refusal_text
from spark_pulsar.cli.messages.connecting import config_of
from spark_pulsar.client.authentication.plugins import Authentication
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.tls import TlsConfig
from spark_pulsar.client.rest import NO_BODY, RestApi, RestError
from spark_pulsar.client.secret import Secret

ABSENT: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
"""Statuses of what is not there: a thing, or a path of another version."""


@dataclass(frozen=True)
class Side:
    """One cluster."""

    word: str
    """`source` or `target`."""
    client: PulsarClient
    api: RestApi

    def get(self, path: str, **query: object) -> Any:
        """Returns the answer of the admin API. Raises RestError."""
        return self.api.call("GET", path, query=query, accept="application/json").value

    def get_if_there(self, path: str, **query: object) -> Any:
        """Returns the answer of the admin API; None where it does not have the path, or nothing is there."""
        try:
            return self.get(path, **query)
        except RestError as error:
            if error.status in ABSENT:
                return None
            raise

    def call(self, method: str, path: str, body: object = NO_BODY, **query: object) -> Any:
        """Makes a change. Raises RestError."""
        return self.api.call(method, path, body, query).value

    def make(self, path: str, body: object = NO_BODY) -> bool:
        """Makes what a path names by PUT; returns False where it is there already."""
        try:
            self.call("PUT", path, body)
        except RestError as error:
            if error.status == HTTPStatus.CONFLICT:
                return False
            raise
        return True


def described(error: RestError) -> str:
    """Returns the words for a refusal, or for no answer."""
    said = refusal_text(error) if error.status else f"no answer: {error.cause}"
    return f"{error.url}: {said}"


@contextmanager
def side(word: str, option: str, named: str, admin_url: str | None) -> Iterator[Side]:
    """Opens a cluster that an option names, by a profile or a service URL. Raises typer.BadParameter."""
    broker, admin = _accesses(option, named, admin_url)
    with PulsarClient(config_of(broker)) as client:
        yield Side(word, client, RestApi(admin.url, admin.headers(), admin.tls_context()))


def _accesses(option: str, named: str, admin_url: str | None) -> tuple[Access, Access]:
    if "://" not in named:
        if admin_url is not None:
            raise typer.BadParameter(f"the profile {named} has the address", param_hint=f"{option}-admin")
        options = AccessOptions(profile=named)
        return broker_access(options), admin_access(options)
    if admin_url is None:
        raise typer.BadParameter(f"a service URL needs the admin API's address: {option}-admin", param_hint=option)
    nothing = Authentication("", Secret("")), TlsConfig()
    return Access(check_service_url(named), *nothing), Access(check_admin_url(admin_url), *nothing)
