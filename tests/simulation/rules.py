"""Rules of policies: when the broker may give up an entry that is not acknowledged, or a ledger that is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import dropwhile
from random import Random
from typing import Any, Final

from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import (
    BACKLOG_EVICTION,
    DESTINATION_STORAGE,
    INACTIVE_MODES,
    MESSAGE_AGE,
    PRODUCER_EXCEPTION,
    REQUEST_HOLD,
    BacklogQuota,
    DelayedDeliveryPolicy,
    DispatchRate,
    InactiveTopicPolicy,
    PublishRate,
    RetentionPolicy,
    SubscribeRate,
)
from spark_pulsar.model.policies.json_values import SUBSCRIPTION_TYPES

from .account import Account, Sent, Topic

NAMESPACE: Final = "public/default"
_MIB: Final = 1 << 20
_EVICTION_SHARE: Final = 0.9
ENCRYPTION: Final = frozenset({policy_table.ENCRYPTION_REQUIRED})
_LAG_TURNS: Final = 300
"""Turns that work begun by a policy (reading entries to find the expired ones) may take."""
_MOMENT_TURNS: Final = 4
"""A change holds after so many turns."""

Policies = dict[tuple["str | None", str], Any]

NOTHING: Final[dict[str, Any]] = {
    policy_table.MESSAGE_TTL: 0,
    policy_table.RETENTION: RetentionPolicy().to_json(),
    policy_table.BACKLOG_QUOTAS: {},
    policy_table.INACTIVE_TOPIC: InactiveTopicPolicy().to_json(),
    policy_table.DELAYED_DELIVERY: DelayedDeliveryPolicy().to_json(),
    policy_table.SUBSCRIPTION_TYPES: list(SUBSCRIPTION_TYPES),
    policy_table.DEDUPLICATION: False,
    policy_table.PUBLISH_RATE: PublishRate().to_json(),
    policy_table.DISPATCH_RATE: DispatchRate().to_json(),
    policy_table.SUBSCRIPTION_DISPATCH_RATE: DispatchRate().to_json(),
    policy_table.SUBSCRIBE_RATE: SubscribeRate().to_json(),
    policy_table.ENCRYPTION_REQUIRED: False,
}
"""The policies of a namespace that gives up nothing and limits nothing."""

_ALWAYS: Final = (policy_table.MESSAGE_TTL, policy_table.RETENTION, policy_table.BACKLOG_QUOTAS)
_OF_FEATURES: Final = {
    "inactivity": (policy_table.INACTIVE_TOPIC, policy_table.INACTIVE_TOPIC),
    "policies": (policy_table.DELAYED_DELIVERY, policy_table.SUBSCRIPTION_TYPES, policy_table.DEDUPLICATION) * 2,
    "rates": (
        policy_table.PUBLISH_RATE,
        policy_table.DISPATCH_RATE,
        policy_table.SUBSCRIPTION_DISPATCH_RATE,
        policy_table.SUBSCRIBE_RATE,
    ),
    "encryption": (policy_table.ENCRYPTION_REQUIRED,) * 2,
}
"""Policies that only some histories change."""


def _draw_dispatch_rate(random: Random) -> Any:
    rate = random.choice((0, 0, 1, 3, 10)), random.choice((0, 100, 300, 5_000)), random.choice((1, 1, 3))
    return DispatchRate(*rate).to_json()


def _draw_quota(random: Random) -> Any:
    kind = random.choice((DESTINATION_STORAGE, MESSAGE_AGE))
    what = random.choice((REQUEST_HOLD, PRODUCER_EXCEPTION, BACKLOG_EVICTION, BACKLOG_EVICTION))
    limit = random.choice((300, 1_500)) if kind == DESTINATION_STORAGE else -1
    seconds = random.choice((1, 10, 60)) if kind == MESSAGE_AGE else -1
    return {kind: BacklogQuota(limit, seconds, what).to_json()}


_RETENTIONS: Final = ((0, 0), (-1, -1), (-1, 1), (-1, 60), (1, -1), (1, 1))
_VALUES: Final[dict[str, Callable[[Random], Any]]] = {
    policy_table.DELAYED_DELIVERY: lambda random: DelayedDeliveryPolicy(random.random() < 0.5).to_json(),
    policy_table.SUBSCRIPTION_TYPES: lambda random: random.sample(SUBSCRIPTION_TYPES, random.choice((1, 2, 3, 4, 4))),
    policy_table.DEDUPLICATION: lambda random: random.random() < 0.6,
    policy_table.ENCRYPTION_REQUIRED: lambda random: random.random() < 0.5,
    policy_table.PUBLISH_RATE: lambda random: PublishRate(
        random.choice((0, 1, 2, 10)), random.choice((0, 0, 100, 5_000))
    ).to_json(),
    policy_table.DISPATCH_RATE: _draw_dispatch_rate,
    policy_table.SUBSCRIPTION_DISPATCH_RATE: _draw_dispatch_rate,
    policy_table.SUBSCRIBE_RATE: lambda random: SubscribeRate(
        random.choice((0, 1, 2)), random.choice((1, 5, 30))
    ).to_json(),
    policy_table.INACTIVE_TOPIC: lambda random: InactiveTopicPolicy(
        random.random() < 0.7, random.choice((1, 30, 90)), random.choice(INACTIVE_MODES)
    ).to_json(),
    policy_table.MESSAGE_TTL: lambda random: random.choice((0, 1, 30, 3_600)),
    policy_table.RETENTION: lambda random: RetentionPolicy(*random.choice(_RETENTIONS)).to_json(),
    policy_table.BACKLOG_QUOTAS: _draw_quota,
}


def draw_policy(random: Random, features: Collection[str] = ()) -> tuple[str, Any]:
    """A policy's member and a value for it."""
    more = [member for feature, members in _OF_FEATURES.items() if feature in features for member in members]
    member = random.choice((*_ALWAYS, *more))
    return member, _VALUES[member](random)


def change(topic: str | None, member: str, value: Any) -> Callable[[Core], None]:
    """Makes the admin API's request to the core."""

    def ask(core: Core) -> None:
        if topic is None:
            policy_changes.set_of_namespace(core, NAMESPACE, member, value)
        else:
            policy_changes.set_of_topic(core, TopicName.parse(topic), member, value)

    return ask


class Rules:
    """The policies in an account, as rules for the judge."""

    def __init__(self, account: Callable[[], Account], now_ms: Callable[[], int]) -> None:
        self._account = account
        self._now_ms = now_ms
        self.defaults = dict(NOTHING)
        """Policies of the configuration."""
        self.turns = 0
        """Turns of the core so far."""
        self.changes = 0
        """Count of changes of policies."""
        self.refused: set[tuple[str, str]] = set()
        """Topic and producer of what may be refused because it is not encrypted, of a producer that encrypts: what came
        behind it may be stored, and then all of it comes again."""
        self._before: list[tuple[int, Policies]] = []
        """Policies before each change, and the turn until which work begun under them may be done."""

    def note_change(self) -> None:
        """A policy is about to change."""
        self._before = [each for each in self._before if each[0] > self.turns - _LAG_TURNS]
        self._before.append((self.turns, dict(self._account().policies)))
        self.changes += 1

    def _held(self, turns: int) -> list[Policies]:
        """Lists the policies of now, and of the last turns."""
        return [self._account().policies, *(known for until, known in self._before if until > self.turns - turns)]

    def _value(self, known: Policies, topic: str, member: str) -> Any:
        value = known.get((topic, member))
        return known.get((None, member), self.defaults[member]) if value is None else value

    def value(self, topic: str, member: str) -> Any:
        """Looks up a policy of a topic."""
        return self._value(self._account().policies, topic, member)

    def is_any_set(self, members: Collection[str]) -> bool:
        """Tells whether one of these policies was ever set."""
        known = self._account().policies
        return bool(known) and any(member in members for _, member in known)

    @property
    def is_changing(self) -> bool:
        """True when a policy was another one a moment ago."""
        return len(self._held(_MOMENT_TURNS)) > 1

    def requires_encryption(self, topic_name: str, *, lag: bool = True) -> bool:
        """Tells whether a topic takes encrypted entries only (PR-12): now, and for a while if there is a `lag`."""
        if not self._account().policies:
            return False
        held = self._held(_MOMENT_TURNS if lag else 0)
        return all(self._value(known, topic_name, policy_table.ENCRYPTION_REQUIRED) for known in held)

    def may_require_encryption(self, topic_name: str) -> bool:
        """Tells whether a topic takes encrypted entries only, or did a while ago: an answer may wait for the disk."""
        held = self._held(_LAG_TURNS)
        return any(self._value(known, topic_name, policy_table.ENCRYPTION_REQUIRED) for known in held)

    def _ttl_ms(self, known: Policies, topic: str) -> int:
        return 1_000 * int(self._value(known, topic, policy_table.MESSAGE_TTL))

    @staticmethod
    def _quota(known: Policies, topic: str, kind: str) -> BacklogQuota:
        """The quota of a kind; a topic's own goes before the namespace's of the same kind."""
        for owner in (topic, None):
            found = known.get((owner, policy_table.BACKLOG_QUOTAS), {}).get(kind)
            if found is not None:
                return BacklogQuota.from_json(found, NAMESPACE)
        return BacklogQuota()

    def _is_expired(self, known: Policies, sent: Sent) -> bool:
        ttl_ms = self._ttl_ms(known, sent.topic)
        return ttl_ms > 0 and sent.publish_ms <= self._now_ms() - ttl_ms

    @property
    def _are_none(self) -> bool:
        """True when no policy was ever set: the configuration gives up nothing."""
        return not (self._before or self._account().policies)

    def must_be_expired(self, sent: Sent) -> bool:
        """Tells whether an entry is older than its topic's time to live, also by the policies of a moment ago
        (TTL-1)."""
        return not self._are_none and all(self._is_expired(known, sent) for known in self._held(_MOMENT_TURNS))

    def may_skip(self, topic_name: str, _name: str, sent: Sent) -> bool:
        """Tells whether expiry or a quota lets the broker ack an entry by itself."""
        return not self._are_none and any(self._may_skip(known, topic_name, sent) for known in self._held(_LAG_TURNS))

    def _may_skip(self, known: Policies, topic_name: str, sent: Sent) -> bool:
        if self._is_expired(known, sent):
            return True
        age = self._quota(known, topic_name, MESSAGE_AGE)
        if age.limit_time_s > 0 and age.policy == BACKLOG_EVICTION:
            limit_ms = int(_EVICTION_SHARE * age.limit_time_s) * 1_000
            if sent.publish_ms <= self._now_ms() - limit_ms:
                return True
        size = self._quota(known, topic_name, DESTINATION_STORAGE)
        if size.limit_bytes < 0 or size.policy != BACKLOG_EVICTION:
            return False
        # That the limit was reached is not said here: acks heard since then hide it. See `quotas`.
        log = self._account().topics[topic_name].log
        at_or_after = dropwhile(lambda each: each is not sent, log.values())
        return sum(len(each.entry) for each in at_or_after) > int(_EVICTION_SHARE * size.limit_bytes)

    def retains(self, topic_name: str, ledger_id: int, topic: Topic) -> bool:
        """Tells whether retention protects a ledger that every subscription has acked (RET-1)."""
        return all(self._retains(known, topic_name, ledger_id, topic) for known in self._held(_MOMENT_TURNS))

    def _retains(self, known: Policies, topic_name: str, ledger_id: int, topic: Topic) -> bool:
        policy = RetentionPolicy.from_json(self._value(known, topic_name, policy_table.RETENTION))
        if policy.size_mb == 0 or policy.time_minutes == 0:
            return False
        sealed_ms = topic.ledgers[ledger_id].sealed_ms
        if sealed_ms is None:
            return True
        if 0 <= policy.time_minutes * 60_000 < self._now_ms() - sealed_ms:
            return False
        rest = sum(each.size_bytes for number, each in topic.ledgers.items() if number > ledger_id)
        return policy.size_mb < 0 or rest < policy.size_mb * _MIB

    def inactive(self, topic_name: str) -> list[tuple[InactiveTopicPolicy, int]]:
        """Lists the policies by which an unused topic is deleted, and the milliseconds of its retention (-1: for ever),
        of now and of a moment ago."""
        found: list[tuple[InactiveTopicPolicy, int]] = []
        for known in self._held(_MOMENT_TURNS):
            policy = InactiveTopicPolicy.from_json(self._value(known, topic_name, policy_table.INACTIVE_TOPIC))
            retention = RetentionPolicy.from_json(self._value(known, topic_name, policy_table.RETENTION))
            found.append((policy, retention.time_ms))
        return found

    def holds_back(self, topic_name: str, sent: Sent, now_ms: int) -> bool:
        """Tells whether an entry must wait for its time, by the policies of now and of a moment ago (DEL-2, DEL-3)."""
        return sent.deliver_at_ms > now_ms and all(
            self._value(known, topic_name, policy_table.DELAYED_DELIVERY)["active"]
            for known in self._held(_MOMENT_TURNS)
        )

    def may_wait(self, topic_name: str, sent: Sent, now_ms: int) -> bool:
        """Tells whether an entry may wait for its time, by the policies of now."""
        policy = self._value(self._account().policies, topic_name, policy_table.DELAYED_DELIVERY)
        return bool(policy["active"]) and sent.deliver_at_ms > now_ms

    def subscription_types(self, topic_name: str) -> list[str]:
        """Names of the types that are enabled."""
        found: list[str] = self._value(self._account().policies, topic_name, policy_table.SUBSCRIPTION_TYPES)
        return found

    def deduplicates(self, topic_name: str) -> bool:
        """Tells whether repeated entries are not stored again, by the policies of now."""
        return bool(self._value(self._account().policies, topic_name, policy_table.DEDUPLICATION))

    def overdue(self, topic_name: str, topic: Topic, slack_ms: int) -> list[Sent]:
        """Unacknowledged entries that should have expired (TTL-2)."""
        ttl_ms = self._ttl_ms(self._account().policies, topic_name)
        limit_ms = self._now_ms() - ttl_ms - slack_ms
        late: list[Sent] = []
        for name in topic.subscriptions:
            wanted = [topic.log[place] for place in topic.unacked(name)]
            late += [sent for sent in wanted if sent.publish_ms < limit_ms]
        return late if ttl_ms else []
