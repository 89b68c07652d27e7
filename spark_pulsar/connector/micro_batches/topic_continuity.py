"""Continuity: proves that the topics of a query still hold the messages that it has read, and keeps evidence for the
next proof (OFFSET-17, OFFSET-20): a topic that was made again is noticed, whatever its ids (OFFSET-6). `offset_planner`
reads it from its start then (OFFSET-18), and compares a micro-batch of an earlier run (OFFSET-19).

Offsets carry the fingerprint of an entry for each partition (`offsets.evidence`). It is compared with the topic when a
run of a query begins, and again where the broker closed a reader or a connection was lost: between two polls without
that, a topic cannot be exchanged. Where the subscription of the query is gone, the messages that it held may be gone
too, unless the entry before the position is still there: a broker trims from the front.

Evidence is refreshed when a micro-batch is planned: from what the driver was sent anyway, else by one round of requests
for a few partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.connector.micro_batches.query_subscription import QuerySubscription
from spark_pulsar.connector.offsets.entry_evidence import description, last_before
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.model.errors import PulsarError, TopicNotFound
from spark_pulsar.model.fingerprints import Fingerprint
from spark_pulsar.model.positions.ids import MessageId

if TYPE_CHECKING:
    from spark_pulsar.connector.read_limits.lookahead import LookAhead

LOG: Final = logging.getLogger("spark_pulsar")

_MOST_REFRESHED: Final = 32
"""Partitions whose evidence is renewed with one micro-batch, where that costs requests."""
_PATIENCE_MS: Final = 1_000
_PATIENCE_EACH_MS: Final = 2
"""Wait for evidence, and what each partition adds to it. A broker that is slower leaves the older one."""
_FIRST_PAUSE_MS: Final = 1_000
_LAST_PAUSE_MS: Final = 600_000
"""Time for which a partition that sent no evidence gets no request, longer each time: its last entry may be one that
no reader is sent."""
_MOST_PROOF_MS: Final = 10_000


class Checked(NamedTuple):
    """Result of a check: losses as sentences, and the partitions that hold other messages than those that were read."""

    losses: tuple[str, ...] = ()
    replaced: frozenset[str] = frozenset()


class Continuity:
    """The evidence of one run of a query."""

    def __init__(self, client: PulsarClient, timeout_ms: int, subscription: QuerySubscription) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._subscription = subscription
        self._unproved: set[str] | None = None
        """Partitions whose content is to be compared; None until the first check."""
        self._unasked: set[str] = set()
        """Partitions whose subscription the driver has to find."""
        self._expired: set[str] = set()
        """Partitions whose evidence was trimmed."""
        self._ages: dict[str, int] = {}
        """Micro-batch in which the evidence of a partition was renewed last."""
        self._silent: dict[str, tuple[int, int]] = {}
        """Partitions that sent no evidence, until when they get no request, and for how long that was."""
        self._round = 0

    @property
    def is_begun(self) -> bool:
        """True when a check has been made in this run."""
        return self._unproved is not None

    def check(self, start: SourceOffset, ends: Mapping[str, ReadPosition]) -> Checked:
        """Compares the fingerprints of `start` that need it with the topics, which end at `ends` (EARLIEST: empty)
        (OFFSET-23).

        A partition that is empty is compared when it no longer is. Raises OperationTimeout.
        """
        known = start.positions.keys()
        if self._unproved is None:
            self._unproved = set() if start.fresh else set(known)
            self._unasked = set(self._unproved)
        lost = self._client.lost_readers()
        self._unproved |= lost
        self._unasked |= lost
        self._unproved &= known
        self._unasked &= known
        # One that ends before the position was replaced for certain: that is reported where ranges are planned.
        there = {topic for topic in self._unproved if topic in ends}
        shorter = {topic for topic in there if EARLIEST < ends[topic] < start.positions[topic]}
        others = self.others({t: start.seen[t] for t in there - shorter if t in start.seen}, ends)
        empty = {topic for topic in there - shorter if ends[topic] == EARLIEST and topic in start.seen}
        losses = [
            replaced_text(topic, start.positions[topic], start.seen[topic], others[topic]) for topic in sorted(others)
        ]
        proved = there - shorter - others.keys() - empty - self._expired - (there - start.seen.keys())
        losses += self._without_subscription(start, (self._unasked & there) - shorter - others.keys(), proved)
        self._unproved -= there - empty
        self._unasked -= there
        return Checked(tuple(losses), frozenset(others))

    def others(
        self, seen: Mapping[str, Fingerprint], ends: Mapping[str, ReadPosition]
    ) -> dict[str, Fingerprint | None]:
        """Returns the partitions where `seen` is not there, and no trimming explains that: with the entry that has its
        id, None where there is none. Raises OperationTimeout."""
        seen = {topic: entry for topic, entry in seen.items() if ends[topic] > _place(entry)}
        if not seen:
            return {}
        wanted = {topic: MessageId(entry.ledger_id, entry.entry_id) for topic, entry in seen.items()}
        fingerprints = self._client.fingerprints(wanted, min(self._timeout_ms // 2, _MOST_PROOF_MS))
        different = {
            topic: entry
            for topic, entry in fingerprints.items()
            if entry != seen[topic] and not isinstance(entry, TopicNotFound)
        }
        elsewhere = [t for t, entry in different.items() if entry is None or entry[:2] != seen[t][:2]]
        fronts = self._client.first_available(dict.fromkeys(elsewhere, MessageId(-1, -1))) if elsewhere else {}
        for topic, front in fronts.items():
            entry = different[topic]
            if isinstance(front, TopicNotFound) or front.position > seen[topic][:2]:
                self._expired.add(topic)  # trimmed, with all before it
                del different[topic]
            elif entry is None:
                raise OperationTimeout(
                    f"waiting for entry {seen[topic].ledger_id}:{seen[topic].entry_id} of {topic}",
                    self._client.config.service_url,
                    min(self._timeout_ms // 2, _MOST_PROOF_MS),
                )
            else:
                different[topic] = None
        return different

    def _without_subscription(self, start: SourceOffset, topics: Collection[str], proved: Collection[str]) -> list[str]:
        """Returns the losses that are possible where the subscription is gone (OFFSET-21, OFFSET-22). Where an entry
        before the position is still there, so is all behind it, and that is a warning."""
        name = self._subscription.name
        if name is None or start.subscription != name:
            return []
        missing = self._subscription.missing_on(topics)
        for topic in sorted(missing & set(proved)):
            LOG.warning(
                "%s: subscription %s of the query is gone and made anew; nothing is lost, what the query has read last "
                "is still there",
                topic,
                name,
            )
        return [
            f"{topic}: subscription {name}, which held what the query had not read, is gone: the topic was deleted and "
            "made again, or the subscription was deleted or has expired (subscriptionExpirationTimeMinutes). Messages "
            f"from {start.positions[topic]} on may have gone with it"
            for topic in sorted(missing - set(proved))
        ]

    def evidence(
        self,
        start: SourceOffset,
        begins: Mapping[str, ReadPosition],
        end: Mapping[str, ReadPosition],
        unread: Collection[str],
        look_ahead: LookAhead | None,
        *,
        is_last: bool,
    ) -> dict[str, Fingerprint]:
        """Returns the fingerprints for an offset at `end`: the newest that are known, of all partitions if it `is_last`
        of a run. Those of `start` go on where `begins` does. At the end of partitions in `unread` is an entry."""
        self._round += 1
        seen = {t: entry for t, entry in start.seen.items() if t in begins and t in end and t not in self._expired}
        wanted: dict[str, ReadPosition] = {}
        for topic, at in end.items():
            entry = last_before(at) or (at if topic in unread else None)
            if entry is None or (topic in seen and seen[topic][:2] == entry[:2]):
                continue
            ahead = None if look_ahead is None else look_ahead.known(topic)
            fingerprint = None if ahead is None else ahead.fingerprint(entry)
            if fingerprint is not None:
                self._renew(seen, topic, fingerprint)
            elif topic not in self._silent or self._silent[topic][0] <= monotonic_ms():
                wanted[topic] = entry
        without = [topic for topic in wanted if topic not in seen]
        oldest = sorted(wanted.keys() & seen.keys(), key=lambda topic: (self._ages.get(topic, 0), topic))
        chosen = without + (oldest if is_last else oldest[:_MOST_REFRESHED])
        if chosen:
            self._read({topic: wanted[topic] for topic in chosen}, seen)
        return seen

    def _renew(self, seen: dict[str, Fingerprint], topic: str, fingerprint: Fingerprint) -> None:
        seen[topic] = fingerprint
        self._ages[topic] = self._round
        self._expired.discard(topic)

    def _read(self, wanted: Mapping[str, ReadPosition], seen: dict[str, Fingerprint]) -> None:
        """Reads fingerprints into `seen`. Never raises for what the broker says: the query goes on without."""
        patience_ms = _PATIENCE_MS + _PATIENCE_EACH_MS * len(wanted)
        try:
            fingerprints = self._client.fingerprints({t: at.message_id for t, at in wanted.items()}, patience_ms)
        except PulsarError as error:
            LOG.info("no evidence of %d partitions: %s", len(wanted), error)
            fingerprints = {}
        for topic, at in wanted.items():
            entry = fingerprints.get(topic)
            if isinstance(entry, Fingerprint) and entry[:2] == at[:2]:
                self._renew(seen, topic, entry)
                self._silent.pop(topic, None)
            else:
                _, pause_ms = self._silent.get(topic, (0, _FIRST_PAUSE_MS // 2))
                pause_ms = min(2 * pause_ms, _LAST_PAUSE_MS)
                self._silent[topic] = monotonic_ms() + pause_ms, pause_ms


def _place(entry: Fingerprint) -> ReadPosition:
    return ReadPosition(entry.ledger_id, entry.entry_id)


def replaced_text(topic: str, position: ReadPosition, seen: Fingerprint, there: Fingerprint | None) -> str:
    """Returns the sentence for a partition where `there` has the id of the entry `seen`, or none has."""
    other = "none with that id, though there are earlier ones" if there is None else f"one {description(there)}"
    return (
        f"{topic} holds other messages than those that were read: as {seen.ledger_id}:{seen.entry_id} the query has "
        f"read an entry {description(seen)}, and there is {other}. The topic was deleted and made again, the broker's "
        f"data was wiped or restored, or service.url leads to another broker; reading stood at {position}"
    )
