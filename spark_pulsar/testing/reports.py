"""The broker's log in the report of a test that failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from spark_pulsar.testing.process import LOG_TAIL_LINES, BrokerProcess

_TITLE = "Captured log of the Pulsar broker"


class BrokerLog:
    """Plugin of one session: adds the broker's log since a test began to the report of a failed test."""

    def __init__(self, broker: BrokerProcess) -> None:
        """`broker`: one that was not closed."""
        self._path = broker.log_path
        self._seen = self._size()

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def _news(self) -> list[str]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._seen)
            return file.read().decode(errors="replace").splitlines()[-LOG_TAIL_LINES:]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """Adds a section to the report of a failure."""
        outcome: Any = yield
        report: pytest.TestReport = outcome.get_result()
        uses = "pulsar_broker" in getattr(item, "fixturenames", ())
        if report.failed and uses:
            lines = self._news()
            if lines:
                report.sections.append((_TITLE, "\n".join(lines)))
        if report.when == "teardown":
            self._seen = self._size()


@contextmanager
def reporting(config: pytest.Config, broker: BrokerProcess) -> Iterator[None]:
    """Has the plugin as long as the broker is there."""
    log = BrokerLog(broker)
    config.pluginmanager.register(log)
    try:
        yield
    finally:
        config.pluginmanager.unregister(log)
