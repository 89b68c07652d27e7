"""A connection that is lost or cannot be made is a warning at once, once in a while."""

from __future__ import annotations

import logging
import threading
from contextlib import closing

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections import connection_log
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.errors import ConnectFailed
from spark_pulsar.model.errors import PulsarError, TopicNotFound
from spark_pulsar.testing.process import broker_process
from tests.eventually import eventually


def test_a_broker_that_goes_is_told_while_requests_are_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    # covers READ-35
    with broker_process() as process, closing(PulsarClient(ClientConfig(process.service_url))) as client:
        assert client.topics_of("public/default") == []
        where = process.service_url.partition("://")[2]
        process.kill()
        asked = threading.Thread(target=client.topics_of, args=("public/default",))
        asked.start()
        eventually(lambda: caplog.messages)
        process.start()
        asked.join(20)
        assert not asked.is_alive()
        assert [text for text in caplog.messages if where not in text] == []
        assert caplog.messages[0].startswith(f"cannot connect to {where}: ")
        assert "trying again for " in caplog.messages[0]


def test_one_text_is_told_once_in_a_while(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers READ-35
    now_ms = 0
    monkeypatch.setattr(connection_log, "monotonic_ms", lambda: now_ms)
    monkeypatch.setattr(connection_log, "_logged_ms", {})
    caplog.set_level(logging.WARNING)
    for now_ms in (0, 50, connection_log.AGAIN_AFTER_MS - 1, connection_log.AGAIN_AFTER_MS):
        connection_log.warn_of_retry(ConnectFailed("cannot connect to a:1: refused"), 30_000 - now_ms)
        connection_log.warn_of_retry(TopicNotFound("t"), 30_000)
    assert caplog.messages == [
        "cannot connect to a:1: refused; trying again for 30 s",
        "cannot connect to a:1: refused; trying again for 20 s",
    ]
    for number in range(1000):
        connection_log.warn_of_lost(PulsarError(f"connection {number} is lost"))
    assert len(connection_log._logged_ms) <= 100
