"""Requests that the admin API refuses on a non-persistent topic, which stores no message (NP-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.admin.http.refusals import Refused

if TYPE_CHECKING:
    from spark_pulsar.model.names import TopicName


def check_stored(name: TopicName, what: str) -> None:
    """Refuses an operation on stored messages: 405 with a reason that names the domain."""
    check_persistent(name, 405, f"{what} on a non-persistent topic is not allowed")


def check_persistent(name: TopicName, status: int, reason: str) -> None:
    """Refuses a non-persistent topic with the status and the reason that Apache Pulsar has for the operation."""
    if not name.is_persistent:
        raise Refused(status, reason)
