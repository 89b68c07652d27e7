"""What `spark-pulsar why` says of a staged cause."""

from __future__ import annotations

import json
import time
from typing import Any

from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from tests.advice import check_commands
from tests.brokers import Broker
from tests.eventually import eventually

LONGEST_S = 5.0
_CHECKED: set[str] = set()
"""Causes whose advice has been checked."""


def findings(broker: Broker, topic: str, *words: str, status: int | None = None) -> list[dict[str, Any]]:
    """The findings of one call, which takes less than 5 s."""
    began = time.monotonic()
    done = CliRunner().invoke(app, ["why", topic, *words, "-o", "json", "--admin-url", broker.admin_url])
    assert time.monotonic() - began < LONGEST_S
    assert done.stderr == "", done.stderr
    values: list[dict[str, Any]] = json.loads(done.stdout)
    has_cause = any(value["state"] == "cause" for value in values)
    assert done.exit_code == (1 if has_cause else 0)
    for value in values:
        if value["cause"] not in _CHECKED:
            _CHECKED.add(value["cause"])
            check_commands(value["advice"])
    return values


def named(broker: Broker, cause: str, topic: str, *words: str) -> str:
    """The sentence of the first finding, once it is of this cause: statistics and policies of Apache Pulsar lag."""
    last: list[dict[str, Any]] = []

    def is_named() -> bool:
        last[:] = findings(broker, topic, *words)
        assert last[0]["cause"] == cause, last
        return True

    eventually(is_named, 20.0)
    return str(last[0]["sentence"])


def among(broker: Broker, cause: str, topic: str, *words: str) -> dict[str, Any]:
    """The finding of this cause, in any place."""

    def finding() -> dict[str, Any]:
        values = findings(broker, topic, *words)
        of_cause = [value for value in values if value["cause"] == cause]
        assert of_cause, values
        return of_cause[0]

    return eventually(finding, 20.0)
