"""A sink's topic that refuses entries for a while: policies that come and go, and bits that flip on the way."""

from __future__ import annotations

from tests.brokers import Broker, topic_path
from tests.damaging_proxy import DamagingProxy, Sent

LEAST_BATCH_BYTES = 280
"""One row fits, ten do not."""
LEAST_ROW_BYTES = 40
"""No row fits."""
REFUSALS = ("size of a batch", "size of a row", "delay", "bit")


class Refusals:
    """What one topic refuses."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._path = topic_path(topic)
        self._topic = topic
        self._policies: set[str] = set()
        self._flips = 0
        self._proxy = DamagingProxy(broker.service_url, self._damages)
        self.url = self._proxy.url
        """Service URL for those who write."""

    def begin(self, kind: str) -> None:
        """Refuses what is of a kind of `REFUSALS`, one entry or until `end`."""
        if kind == "bit":
            self._flips += 1
        elif kind == "delay":
            self._set("delayedDelivery", {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 1000})
        else:
            self._set("maxMessageSize", LEAST_BATCH_BYTES if kind == "size of a batch" else LEAST_ROW_BYTES)

    def _set(self, policy: str, value: object) -> None:
        status, answer = self._broker.rest("POST", f"{self._path}/{policy}", value)
        if status == 404:  # nothing has been written yet
            return
        assert status == 204, (status, answer)
        self._policies.add(policy)

    def end(self) -> None:
        """Removes the policies."""
        for policy in self._policies:
            status, answer = self._broker.rest("DELETE", f"{self._path}/{policy}")
            assert status == 204, (status, answer)
        self._policies.clear()

    def close(self) -> None:
        """Ends it all."""
        self._proxy.close()

    def _damages(self, sent: Sent) -> bool:
        if self._flips and sent.topic.startswith(self._topic):
            self._flips -= 1
            return True
        return False
