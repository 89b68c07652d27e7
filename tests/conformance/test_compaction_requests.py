"""Asking for a compaction, and how it goes."""

from __future__ import annotations

import threading
from typing import Any

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import send_all
from tests.eventually import eventually

TOGETHER = 4


def test_a_compaction_is_refused_while_one_runs(broker: Broker) -> None:
    # covers CMP-C6
    topic = broker.topic()
    path = f"{topic_path(topic)}/compaction"
    client = broker.client()
    client.subscribe(topic, "keep").close()
    producer = client.create_producer(topic, batching_enabled=False)
    assert broker.rest("GET", path) == (200, {"status": "NOT_RUN", "lastError": ""})

    def asked_together() -> list[Any]:
        """Several ask at the same time: one is told yes; whether the others come while it runs is luck."""
        send_all(producer, [bytes(10_000)] * 20)
        eventually(lambda: broker.rest("GET", path)[1]["status"] != "RUNNING", timeout_s=60)
        start, answers = threading.Barrier(TOGETHER), list[Any]()

        def ask() -> None:
            start.wait()
            answers.append(broker.rest("PUT", path))

        threads = [threading.Thread(target=ask) for _ in range(TOGETHER)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (204, "") in answers
        return [answer for answer in answers if answer != (204, "")]

    for status, answer in eventually(asked_together, timeout_s=60):
        assert (status, answer["reason"]) == (409, "Compaction already in progress")
    eventually(lambda: broker.rest("GET", path)[1] == {"status": "SUCCESS", "lastError": ""}, timeout_s=60)
