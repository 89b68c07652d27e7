"""The space of the disk over REST and as metrics."""

from __future__ import annotations

import pytest

from tests.unit.admin.test_app import Gate, call
from tests.unit.broker.world import World


def test_the_space_is_told_by_rest_and_metrics() -> None:
    world = World()
    space = {"sizeBytes": 1000, "freeBytes": 400, "fullReason": None}
    assert call(world, "GET", "/admin/v2/broker-stats/disk")[2] == space
    assert "\nspark_pulsar_disk_free_bytes 400\n" in call(world, "GET", "/metrics")[2]


def test_a_disk_that_does_not_answer_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_gate: Gate) -> tuple[int, int]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Gate, "disk_space", fails)
    world = World()
    assert call(world, "GET", "/admin/v2/broker-stats/disk")[0] == 503
    status, _, text = call(world, "GET", "/metrics")
    assert (status, "disk_free" in text, "pulsar_active_connections" in text) == (200, False, True)
