"""A namespace of a test's own whose ledgers, retention, expiry and quotas the test sets and sees."""

from __future__ import annotations

import itertools
import os
from typing import Any

from tests.brokers import Broker, topic_path
from tests.raw import Frame, RawConnection

KIB = 1024
HOUR_MS = 3_600_000
EXPIRY_S = 180.0
"""Apache Pulsar looks for expired messages, idle subscriptions and names once a minute at most."""
_numbers = itertools.count()


class Space:
    """A namespace with one topic in it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        name = f"public/rolling-{os.getpid()}-{next(_numbers)}-{os.urandom(3).hex()}"
        self.path = f"/admin/v2/namespaces/{name}"
        self.topic = f"persistent://{name}/t"
        assert broker.rest("PUT", self.path)[0] == 204
        self.retain(0, 0)

    def retain(self, minutes: int, megabytes: int) -> None:
        body = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        assert self.broker.rest("POST", f"{self.path}/retention", body)[0] == 204

    def expire(self, seconds: int) -> None:
        assert self.broker.rest("POST", f"{self.path}/messageTTL", seconds)[0] == 204

    def limit(self, policy: str, *, size: int = -1, seconds: int = -1) -> None:
        kind = "destination_storage" if size >= 0 else "message_age"
        body = {"limitSize": size, "limitTime": seconds, "policy": policy}
        assert self.broker.rest("POST", f"{self.path}/backlogQuota?backlogQuotaType={kind}", body)[0] == 204

    def subscribe(self, name: str = "s") -> None:
        """Create a subscription that nobody is connected to."""
        path = f"{topic_path(self.topic)}/subscription/{name}"
        self.broker.client().create_producer(self.topic).close()
        assert self.broker.rest("PUT", path)[0] in (200, 204)

    def stats(self) -> dict[str, Any]:
        status, answer = self.broker.rest("GET", f"{topic_path(self.topic)}/stats")
        assert status == 200, answer
        return dict(answer)

    def backlog(self, name: str = "s") -> int:
        return int(self.stats()["subscriptions"][name]["msgBacklog"])

    def partitioned(self, count: int) -> list[str]:
        """The partitions of a topic that is made with so many."""
        topic = f"{self.topic}-parted"
        assert self.broker.rest("PUT", f"{topic_path(topic)}/partitions", count)[0] == 204
        return [f"{topic}-partition-{index}" for index in range(count)]

    def stored(self, topic: str | None = None) -> int:
        """Entries of all ledgers."""
        status, answer = self.broker.rest("GET", f"{topic_path(topic or self.topic)}/internalStats")
        assert status == 200, answer
        return int(answer["numberOfEntries"])

    def try_producer(self) -> Frame:
        """The answer to PRODUCER."""
        raw = self.broker.raw()
        raw.request("LOOKUP", topic=self.topic)
        answer = raw.request("PRODUCER", topic=self.topic, producer_id=1)
        raw.close()
        return answer

    def refused(self) -> Frame | None:
        """The refusal of a producer, None when it is let in."""
        answer = self.try_producer()
        return answer if answer.type == "ERROR" else None

    def is_open(self) -> bool:
        return self.try_producer().type == "PRODUCER_SUCCESS"


def publish_at(raw: RawConnection, producer_id: int, topic: str, *times_ms: int, **metadata: Any) -> None:
    """One message after the other, each published at that time by its producer's clock."""
    raw.request("LOOKUP", topic=topic)
    assert raw.request("PRODUCER", topic=topic, producer_id=producer_id).type == "PRODUCER_SUCCESS"
    for sequence_id, time_ms in enumerate(times_ms):
        raw.send_message(producer_id, sequence_id, b"m", metadata={"publish_time": time_ms} | metadata)
        raw.expect("SEND_RECEIPT")
