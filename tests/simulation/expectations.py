"""Expectations of the judge by a history's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import InactiveTopicPolicy

if TYPE_CHECKING:
    from .judge import Judge
    from .profile import Profile


def expect(judge: Judge, profile: Profile) -> None:
    """Tells it."""
    judge.rules.defaults[policy_table.DEDUPLICATION] = bool(profile.config.get("deduplication"))
    judge.transactions.is_on = "transactions" in profile.features
    judge.has_takeovers = "types" in profile.features
    judge.batch_index_acks = profile.config["batch_index_acks"]
    judge.uses.idleness.limit_ms = 60_000 * profile.config.get("subscription_expiration_minutes", 0)
    judge.compaction.keeps_unkeyed = profile.config.get("compaction_keeps_null_keys", False)
    if "inactivity" in profile.features:
        config = BrokerConfig(**profile.config)
        interval_ms = config.inactive_check_interval_ms
        max_s = config.inactive_max_s or interval_ms // 1000
        policy = InactiveTopicPolicy(config.delete_inactive_topics, max_s, config.inactive_mode)
        judge.rules.defaults[policy_table.INACTIVE_TOPIC] = policy.to_json()
        judge.uses.inactivity.is_on, judge.uses.inactivity.interval_ms = True, interval_ms
