"""Limits of what a topic accepts: policies read from the admin API before rows are sent (option `admin.url`) (SINK-17),
and size limits as far as a process has learned them from refusals (SINK-11).

A broker announces its own size limit on the binary protocol, but no policy of a topic. Where the API cannot be read,
refusals say the same later. A refusal says that an entry was too large and not what the limit is, so that batches are
halved until they fit. Tasks that follow in the same worker process begin with what fitted. A row that is too large
alone is an error, or goes out in chunks (`EntrySender`, SINK-12).
"""

from __future__ import annotations

import logging
import urllib.parse
from dataclasses import dataclass
from typing import Any, Final

from spark_pulsar.client.admin_api import read_json
from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.model.errors import NotAllowed, PulsarError
from spark_pulsar.model.names import TopicName

REMEMBERED_MS: Final = 10 * 60 * 1000
"""A policy may be lifted: larger batches are tried again after so long."""

_LEARNED: Final[dict[tuple[str, str], tuple[int, int]]] = {}
"""Payload bytes of a batch before compression, and when they were learned, by service URL and topic."""
LOG: Final = logging.getLogger("spark_pulsar")
KNOWN_MS: Final = 60_000
"""Policies may change while a process lives."""
_KNOWN: Final[dict[tuple[str, str], tuple[TopicPolicies, int]]] = {}


class TopicLimit:
    """Limit of the batches of one topic."""

    def __init__(self, service_url: str, topic: str) -> None:
        self._place = (service_url, TopicName.parse(topic).base.full)

    @property
    def batch_bytes(self) -> int | None:
        """Payload bytes of a batch, before compression, that the topic is likely to accept; None if no entry was
        refused."""
        learned = _LEARNED.get(self._place)
        if learned is None or monotonic_ms() - learned[1] > REMEMBERED_MS:
            return None
        return learned[0]

    def refused(self, payload_bytes: int) -> None:
        """Learns from the size of a refused entry's payload before compression."""
        known, halved = self.batch_bytes, max(1, payload_bytes // 2)
        _LEARNED[self._place] = (halved if known is None else min(known, halved), monotonic_ms())


@dataclass(frozen=True, slots=True)
class TopicPolicies:
    """Limits of one topic; None: no limit, or none that is known."""

    max_message_size_bytes: int | None = None
    max_delay_ms: int | None = None
    delays_messages: bool = True

    def check_delays(self, topic: str, times_ms: Any, keys: Any, now_ms: int) -> None:
        """Checks delivery times in ms since 1970, 0 for none, before any of the rows is sent (SINK-13). Raises
        NotAllowed."""
        if not times_ms.any():
            return
        if not self.delays_messages:
            LOG.warning("%s: delayed delivery is off (policy delayedDelivery), rows are delivered at once", topic)
        at = int(times_ms.argmax())
        delay_ms = int(times_ms[at]) - now_ms
        if self.max_delay_ms is not None and delay_ms > self.max_delay_ms:
            key = keys.item(at)
            named = "" if key is None else f" with the key {key.decode(errors='replace')[:100]!r}"
            raise NotAllowed(
                f"{topic}: a row{named} is to be delivered in {delay_ms} ms, and the policy delayedDelivery allows "
                f"{self.max_delay_ms} (maxDeliveryDelayInMillis)"
            )


def policies_of(config: ClientConfig, admin_url: str | None, topic: str) -> TopicPolicies:
    """Returns the policies that apply to a topic, its own before its namespace's and the broker's; none that limit
    without `admin_url`, and with a warning where they cannot be read."""
    if admin_url is None:
        return TopicPolicies()
    name = TopicName.parse(topic).base
    known = _KNOWN.get((admin_url, name.full))
    if known is not None and monotonic_ms() - known[1] <= KNOWN_MS:
        return known[0]
    domain, _, place = name.full.partition("://")
    tenant, namespace, local = place.split("/", 2)
    base = f"{admin_url}/admin/v2/{domain}/{tenant}/{namespace}/{urllib.parse.quote(local, safe='')}"
    try:
        policies = _policies(
            read_json(config, f"{base}/maxMessageSize?applied=true"),
            read_json(config, f"{base}/delayedDelivery?applied=true"),
        )
    except PulsarError as error:
        LOG.warning("%s: its policies are not checked before rows are sent: %s", name.full, error)
        policies = TopicPolicies()
    _KNOWN[admin_url, name.full] = policies, monotonic_ms()
    return policies


def _policies(size: Any, delays: Any) -> TopicPolicies:
    delays = delays if isinstance(delays, dict) else {}
    most_ms = delays.get("maxDeliveryDelayInMillis")
    return TopicPolicies(
        max_message_size_bytes=size if isinstance(size, int) and size > 0 else None,
        max_delay_ms=most_ms if isinstance(most_ms, int) and most_ms > 0 else None,
        delays_messages=delays.get("active") is not False,
    )
