"""Notices of the official client's connections: lost, tried again, back. One line each on standard error.

The client itself is silent, or logs each attempt of each producer and consumer in ten lines. Its log is read here, and
becomes one line when a connection is lost, one every few seconds while it is tried again, and one when it is back.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Final

import typer

from spark_pulsar.cli.access.client_log import ClientLog
from spark_pulsar.cli.values import LogLevel
from spark_pulsar.client.clock import monotonic_ms

AGAIN_AFTER_MS: Final = 5_000
"""Time between two notices of attempts that fail."""
_ADDRESS: Final = re.compile(r"-> (?:pulsar(?:\+ssl)?://)?([^\s\]]+)\]")
_LOST: Final = re.compile(r"\] Connection disconnected")
_FAILED: Final = re.compile(r"\] Failed to establish connection[^:]*(?::\d+)?: (.+)|\] (.*[Hh]andshake.*)")
_BACK: Final = re.compile(r"\] Connected to broker")


class ConnectionNotices:
    """Reports lost connections while it is open: give `logger` to `pulsar.Client`, and `close` this before the
    client."""

    def __init__(self, show: Callable[[str], None] | None = None) -> None:
        self._show = show or _on_standard_error
        self._guard = threading.Lock()
        self._lost: dict[str, int] = {}
        """Addresses whose connection is lost, with the time of the last report."""
        self._connected: set[str] = set()
        self._closed = False
        self.logger: Final = ClientLog(LogLevel.INFO, self.add_line).logger
        """The logger for `pulsar.Client(logger=…)`."""

    def add_line(self, text: str) -> None:
        """Takes one line of the client's log."""
        line = self._line(text)
        if line is not None:
            self._show(line)

    def close(self) -> None:
        """Reports nothing more: from now on connections are closed here."""
        with self._guard:
            self._closed = True

    def _line(self, text: str) -> str | None:
        match = _ADDRESS.search(text)
        if match is None:
            return None
        address, now_ms = match[1], monotonic_ms()
        with self._guard:
            if self._closed:
                return None
            if _BACK.search(text):
                self._connected.add(address)
                return None if self._lost.pop(address, None) is None else f"connected to {address} again"
            failed = _FAILED.search(text)
            if failed is not None:
                if address in self._lost and now_ms - self._lost[address] < AGAIN_AFTER_MS:
                    return None
                self._lost[address] = now_ms
                return f"no connection to {address}: {failed[1] or failed[2]}; trying again"
            if _LOST.search(text) and address in self._connected and address not in self._lost:
                self._lost[address] = now_ms
                return f"connection to {address} lost; trying again"
        return None


def _on_standard_error(line: str) -> None:
    typer.echo(f"spark-pulsar: {line}", err=True)
