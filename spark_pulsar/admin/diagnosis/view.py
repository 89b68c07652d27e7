"""View of one subscription, as every rule receives it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from spark_pulsar.admin.diagnosis.facts import Consumer, Facts, Log, Policies, Subscription
from spark_pulsar.admin.diagnosis.findings import Cause, Finding, State, admin_topics, counted, plural, time_text


@dataclass(frozen=True, slots=True)
class View:
    """A subscription of a topic, of a partition, or of several partitions together."""

    facts: Facts
    log: Log
    subscription: Subscription

    @property
    def name(self) -> str:
        """Returns the subscription's name in quotes."""
        return f'"{self.subscription.name}"'

    @property
    def policies(self) -> Policies:
        """Returns the policies that apply to the topic."""
        return self.facts.policies

    @property
    def due(self) -> int:
        """Returns the number of messages of the backlog that may be sent by now."""
        return max(0, self.subscription.backlog - self.subscription.delayed)

    @property
    def unacked_entries(self) -> int:
        """Returns the number of entries of which consumers hold unacknowledged messages, about."""
        return sum(-(-consumer.unacked // consumer.per_entry) for consumer in self.subscription.consumers)

    @property
    def per_entry(self) -> int:
        """Returns the messages of an entry, on average; 0 where nothing says it."""
        received = [consumer.per_entry for consumer in self.subscription.consumers]
        if received:
            return max(received)
        published, added = self.log.published, self.log.added_entries
        return round(published / added) if 0 < added <= published else 0

    def entries(self, number: int) -> str:
        """Returns a number of a backlog, which counts entries: in messages where each is one."""
        if self.per_entry == 1:
            return counted(number, "message")
        of = f" of about {self.per_entry:,} messages" if self.per_entry else ""
        return f"{plural(number, 'entry', 'entries')}{of}"

    @property
    def is_stuck(self) -> bool:
        """Returns whether messages wait for connected consumers, and none was sent between the two samples."""
        return bool(self.due and self.subscription.consumers and not self.subscription.sent_lately)

    @property
    def has_permits(self) -> bool:
        """Returns whether a consumer would receive a message now."""
        return any(consumer.permits > 0 and not consumer.is_blocked for consumer in self.receivers)

    @property
    def receivers(self) -> tuple[Consumer, ...]:
        """Returns the consumers to which the broker would send: the active one of Exclusive and Failover."""
        active = [
            consumer
            for consumer in self.subscription.consumers
            if consumer.name == self.subscription.active_consumer
            and self.subscription.type in ("Exclusive", "Failover")
        ]
        return tuple(active[:1]) or self.subscription.consumers

    def time(self, at_ms: int) -> str:
        """Returns a time of day in the reader's time zone."""
        return time_text(at_ms, self.facts.now_ms, self.facts.zone)

    def waiting(self) -> str:
        """Returns the backlog in words: `its 20 messages wait, the oldest since 12:01:00`."""
        backlog, oldest = self.subscription.backlog, self.subscription.oldest_ms
        if not backlog:
            return "it has no backlog"
        since = f", the oldest since {self.time(oldest)}" if oldest > 0 else ""
        return f"its {self.entries(backlog)} wait{'s' if backlog == 1 else ''}{since}"

    def consumer_text(self, consumer: Consumer) -> str:
        """Returns a consumer's name, address and time of connection."""
        since = f" since {self.time(consumer.since_ms)}" if consumer.since_ms else ""
        return f'"{consumer.name}" from {consumer.address or "an unknown address"}{since}'

    def cause(self, cause: Cause, sentence: str, advice: str) -> Finding:
        """Returns a finding that keeps messages from consumers."""
        return Finding(cause, State.CAUSE, sentence, advice, self.subscription.name)

    def note(self, cause: Cause, sentence: str, advice: str = "") -> Finding:
        """Returns a finding that explains, or that nothing is wrong with."""
        return Finding(cause, State.NOTE, sentence, advice, self.subscription.name)

    def ok(self, cause: Cause, sentence: str) -> Finding:
        """Returns a finding with which nothing is wrong."""
        return Finding(cause, State.OK, sentence, "", self.subscription.name)

    def command(self, command: str, *words: str) -> str:
        """Returns a command of `spark-pulsar admin topics` for this subscription."""
        return admin_topics(command, self.facts.topic, "-s", shlex.quote(self.subscription.name), *words)
