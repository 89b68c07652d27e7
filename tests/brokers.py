"""The broker that a test talks to: ours, or a real Apache Pulsar, behind one small face.

Tests get it from the fixtures `broker` (one for the whole session, never restarted) and `own_broker` (may be killed and
restarted); both are in `conftest.py`.
"""

from __future__ import annotations

import itertools
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import pulsar

from tests.apache_pulsar.start import VERSIONS, chosen_version
from tests.changes import Change
from tests.raw import RawConnection

Kind = Literal["ours", "apache-pulsar"]
RUNNING_APACHE_PULSAR = "APACHE_PULSAR_URLS"

_numbers = itertools.count()


class Process(Protocol):
    """What runs the broker: `spark_pulsar.broker_process()` or `tests.apache_pulsar.start.ApachePulsar`."""

    service_url: str
    admin_url: str

    @property
    def pid(self) -> int:
        """Of the process that runs."""

    def restart(self) -> None:
        """Stop in order if it runs, start again on the same ports and data; return when it serves."""

    def kill(self) -> None:
        """SIGKILL; return when it is gone."""


class Broker:
    """A running broker and what a test needs around it.

    Attributes:
        kind: `ours` or `apache-pulsar`.
        service_url: For official clients: `pulsar://127.0.0.1:PORT`.
        admin_url: Of the REST API, without a path: `http://127.0.0.1:PORT`.
    """

    def __init__(self, kind: Kind, service_url: str, admin_url: str, process: Process | None = None) -> None:
        self.kind = kind
        self.service_url = service_url
        self.admin_url = admin_url
        self.process = process
        self._opened: list[Callable[[], Any]] = []

    def has(self, change: Change) -> bool:
        """Returns whether a change of a newer Apache Pulsar holds on this broker."""
        if self.kind == "ours":
            return change.ours
        return VERSIONS.index(chosen_version()) >= VERSIONS.index(change.since)

    def topic(self, name: str = "t", partitions: int = 0) -> str:
        """A full topic name that nobody used before; created through REST when it is to have partitions."""
        topic = f"persistent://public/default/{name}-{os.getpid()}-{next(_numbers)}-{os.urandom(3).hex()}"
        if partitions:
            status, answer = self.rest("PUT", f"{topic_path(topic)}/partitions", partitions)
            assert status == 204, f"PUT partitions of {topic}: {status} {answer!r}"
        return topic

    def namespace(self, policies: Mapping[str, Any] | None = None) -> str:
        """A namespace of the test's own, `public/NAME`, made with these policies."""
        name = f"public/ns-{os.getpid()}-{next(_numbers)}-{os.urandom(3).hex()}"
        status, answer = self.rest("PUT", f"/admin/v2/namespaces/{name}", policies)
        assert status == 204, answer
        return name

    def client(self, **settings: Any) -> pulsar.Client:
        """An official client, closed when the test ends (a client made in a wider fixture: when the session ends)."""
        settings.setdefault("operation_timeout_seconds", 30)
        settings.setdefault("logger", pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
        client = pulsar.Client(self.service_url, **settings)
        self._opened.append(client.close)
        return client

    def raw(self, **connect_fields: Any) -> RawConnection:
        """A connection of single frames, after its handshake; closed when the test ends."""
        connection = self.unconnected()
        connection.connect(**connect_fields)
        return connection

    def unconnected(self) -> RawConnection:
        """A TCP connection on which nothing was sent yet; closed when the test ends."""
        url = urllib.parse.urlsplit(self.service_url)
        assert url.hostname is not None
        assert url.port is not None
        connection = RawConnection(url.hostname, url.port)
        self._opened.append(connection.close)
        return connection

    def rest(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and answer (parsed JSON, else text) of one REST call; `path` begins with a slash."""
        data = None if body is None else json.dumps(body).encode()
        sent = ({} if data is None else {"Content-Type": "application/json"}) | dict(headers or {})
        request = urllib.request.Request(self.admin_url + path, data=data, method=method, headers=sent)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def stats(self, topic: str, query: str = "") -> Any:
        """The answer of `stats`."""
        status, answer = self.rest("GET", f"{topic_path(topic)}/stats?{query}")
        assert status == 200, answer
        return answer

    def subscription(self, topic: str, name: str = "s") -> Any:
        """Statistics of a subscription."""
        return self.stats(topic)["subscriptions"][name]

    def backlog(self, topic: str, name: str = "s") -> int:
        """Messages that a subscription has before it."""
        return int(self.stats(topic, "getPreciseBacklog=true")["subscriptions"][name]["msgBacklog"])

    def restart(self) -> None:
        """Restart in order, or start again after `kill()`; same ports, same data."""
        assert self.process is not None, "a broker that others use is not restarted: take own_broker"
        self.process.restart()

    def kill(self) -> None:
        """SIGKILL; `restart()` brings it back."""
        assert self.process is not None, "a broker that others use is not killed: take own_broker"
        self.process.kill()

    def opened(self) -> int:
        """How many clients and connections are open on behalf of tests: a mark for `close_since`."""
        return len(self._opened)

    def close_since(self, mark: int) -> None:
        """Close what was opened after `mark`, latest first. Closing twice is no error."""
        while len(self._opened) > mark:
            close = self._opened.pop()
            try:
                close()
            except pulsar.AlreadyClosed:
                continue


def topic_path(topic: str) -> str:
    """The path of a full topic name in the REST API: `/admin/v2/persistent/public/default/NAME`."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, local = rest.split("/", 2)
    return f"/admin/v2/{domain}/{tenant}/{namespace}/{urllib.parse.quote(local, safe='')}"
