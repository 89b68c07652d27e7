"""Profile of a history: sizes, limits, faults and frequencies of steps, all drawn from the seed. Each history leaves
some things out altogether and does others far too often (swarm testing): an event that is rare everywhere is common
somewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from spark_pulsar.model.policies.effective_policies import INACTIVE_MODES

STEPS: Final = (60, 100, 160, 240)

WEIGHTS: Final[dict[str, float]] = {
    # What clients do
    "publish": 9,
    "open_producer": 3,
    "close_producer": 0.5,
    "open_consumer": 5,
    "close_consumer": 2,
    "grant": 4,
    "ack": 8,
    "ack_in_part": 6,
    "ack_cumulatively": 2,
    "redeliver": 2,
    "seek": 0.7,
    "seek_to_time": 0.5,
    "unsubscribe": 0.15,
    "connect": 2,
    "open_reader": 0.5,
    "ask_last_id": 0.3,
    "set_policy": 0.4,
    # The network
    "bustle": 12,
    "carry_up": 16,
    "carry_down": 12,
    "cut": 0.5,
    "go_silent": 0.5,
    "slow_socket": 0.7,
    # The disk
    "write": 10,
    "settle": 3,
    "read": 6,
    "fail_read": 0.3,
    "checkpoint": 1,
    "fail_write": 0.25,
    "fill_up": 0.15,
    "heal_disk": 0.6,
    "die_soon": 0.5,
    "crash": 0.5,
    "restart": 0.25,
    # Time
    "tick": 5,
    "jump": 0.5,
}
ALWAYS: Final = frozenset(
    {
        "publish",
        "open_producer",
        "open_consumer",
        "connect",
        "carry_up",
        "carry_down",
        "write",
        "read",
        "bustle",
        "tick",
        "grant",
    }
)
"""Without these nothing happens at all."""

FEATURES: Final[dict[str, dict[str, float]]] = {
    "moves": {
        "skip": 0.8,
        "clear_backlog": 0.25,
        "reset_to_place": 0.7,
        "reset_to_time": 0.5,
        "expire_by_time": 0.5,
        "expire_to_place": 0.4,
        "peek": 0.5,
    },
    "deletion": {"delete_topic": 0.4},
    "compaction": {"compact": 1, "go_on_compacting": 5, "fail_compacting": 0.1, "open_compacted_reader": 1.5},
    "partitions": {"create_partitioned": 0.6, "grow": 0.5, "delete_partitioned": 0.3},
}
"""Features that only some histories have, and their steps. Those below have a source of their own each."""

LATER_FEATURES: Final[dict[str, dict[str, float]]] = {
    "idleness": {"leave_alone": 1},  # some subscriptions are unused for longer than they may be idle
    "types": {"join": 8},  # subscriptions are of all four types
    "delays": {"wait": 3},  # some entries are not to be delivered before a time
    "access": {},  # some producers want a topic alone
    "live": {"publish_non_persistent": 10, "open_non_persistent_consumer": 5},  # there are non-persistent topics too
    "termination": {"terminate": 0.5},
    "policies": {"set_policy": 2, "cut": 2, "connect": 4},  # of delays, types of subscriptions, de-duplication too
    "schemas": {"ask_schema": 2, "register_schema": 2, "delete_schemas": 0.3},
    "rates": {"set_policy": 2},  # what is published, sent and subscribed is limited
    "encryption": {"set_policy": 1.5, "open_producer": 5},  # some producers encrypt, and now and then all have to
    "inactivity": {"abandon": 2, "leave_topics_alone": 3, "visit": 2},  # unused topics go
    "transactions": {
        "transact": 3,
        "begin_transaction": 2,
        "publish_in_transaction": 5,
        "ack_in_transaction": 6,
        "end_transaction": 5,
        "end_unheard": 1,
        "end_again": 0.7,
        "let_time_out": 0.7,
        "forget_transaction": 0.4,
        "abort_transaction": 0.4,
    },
}
"""Later features, in the form of FEATURES."""

NEWEST: Final = frozenset({"rates", "encryption", "transactions"})
"""Features that earlier chosen histories do not have."""
_FEATURE_SHARE: Final = 0.3
DAY_MS: Final = 86_400_000


@dataclass(slots=True)
class Profile:
    """The shape of one history."""

    seed: int
    steps: int
    storage: str
    """`memory` or `files`."""
    topics: int
    clients: int
    subscriptions: int
    producers: int
    config: dict[str, Any] = field(default_factory=dict)
    """Keywords of BrokerConfig."""
    weights: dict[str, float] = field(default_factory=dict)
    entry_bytes: tuple[int, ...] = (0, 10, 100)
    run_length: int = 4
    batch: int = 5
    batch_share: float = 0.4
    receipt_share: float = 0.6
    clock_goes_back: bool = False
    segment_bytes: int = 8192
    power: str = "random"
    """Effect of a crash on writes that were not synced: keep, lose, random."""
    sync: str = "always"
    """Mode of journalSyncData: always, never, or `changes` from start to start."""
    features: frozenset[str] = frozenset()
    """Some of FEATURES and LATER_FEATURES."""


def draw(seed: int, *, storage: str | None = None, without: Collection[str] = ()) -> Profile:
    """The profile of a seed; `without` some of LATER_FEATURES it is what it was before there were these."""
    random = Random(f"profile of {seed}")
    choice = random.choice
    weights = {}
    for action, weight in WEIGHTS.items():
        if action in ALWAYS or random.random() > 0.25:
            weights[action] = weight * choice((0.3, 1, 1, 1, 3))
    small = random.random() < 0.7
    config: dict[str, Any] = {
        "batch_index_acks": random.random() < 0.7,
        "ledger_max_entries": choice((1, 3, 5, 8)) if small else 50_000,
        "ledger_max_bytes": choice((300, 1 << 31)),
        "ledger_min_age_ms": choice((-1, -1, 100, 600_000)),
        "ledger_max_age_ms": choice((1_000, 14_400_000)),
        "cache_bytes": choice((0, 3_000, 1 << 20)),
        "max_unacked_per_consumer": choice((0, 4, 50_000)),
        "max_unacked_per_subscription": choice((0, 9, 200_000)),
        "round_robin_batch": choice((1, 3, 20)),
        "max_read_entries": choice((1, 3, 1_000)),
        "max_read_bytes": choice((100, 5_000_000)),
        "max_dispatch_bytes": choice((200, 2_000_000)),
        "max_turn_bytes": choice((300, 16_000_000)),
        "max_pending_publishes_per_session": choice((3, 1_000)),
        "max_pending_publish_bytes": choice((2_000, 64_000_000)),
    }
    if random.random() < 0.5:
        config["deduplication"] = True
        config["deduplication_producer_timeout_ms"] = (1 << 40, 21_600_000, 60_000)[seed % 3]
    profile = Profile(
        seed,
        choice(STEPS),
        storage or choice(("memory", "files")),
        choice((1, 1, 2, 3)),
        choice((1, 2, 3)),
        choice((1, 2, 3)),
        choice((1, 2, 3)),
        config,
        weights,
        choice(((0, 10, 100), (0, 10, 1_500))),
        choice((1, 4, 9)),
        choice((2, 5, 70)),
        choice((0, 0.4, 1)),
        choice((0.2, 0.6, 1)),
        random.random() < 0.3,
        choice((2_048, 8_192, 65_536)),
        choice(("keep", "lose", "random", "random")),
    )
    if profile.storage == "files":
        profile.sync = Random(f"syncing for {seed}").choice(("always",) * 6 + ("never", "changes"))
    _draw_features(profile, without)
    return profile


def _draw_features(profile: Profile, without: Collection[str]) -> None:
    """Draws features from a source of its own: a history without any is what it was before there were features."""
    random = Random(f"features for {profile.seed}")
    profile.features = frozenset(name for name in FEATURES if random.random() < _FEATURE_SHARE)
    for name in FEATURES:
        if name in profile.features:
            factor = random.choice((0.5, 1, 1, 3))
            if name == "compaction":
                profile.config["compaction_keeps_null_keys"] = random.random() < 0.3
            profile.weights.update({action: weight * factor for action, weight in FEATURES[name].items()})
    for name, actions in LATER_FEATURES.items():
        random = Random(f"{name} for {profile.seed}")
        if name in without or (name == "idleness" and profile.clock_goes_back):
            continue
        if random.random() < _FEATURE_SHARE:
            profile.features |= {name}
            _configure(profile, name, random)
            factor = random.choice((0.3, 0.6, 2))
            profile.weights.update({action: weight * factor for action, weight in actions.items()})


def _configure(profile: Profile, feature: str, random: Random) -> None:
    """Sets what a feature needs of the broker's configuration."""
    choice, config = random.choice, profile.config
    if feature == "idleness":
        config["subscription_expiration_minutes"] = choice((1, 2, 61))
    elif feature == "inactivity":
        config["delete_inactive_topics"] = choice((True, True, False))
        config["inactive_check_interval_ms"] = choice((1_000, 60_000))
        config["inactive_max_s"] = choice((0, 1, 90, 90))
        config["inactive_mode"] = choice(INACTIVE_MODES)
    elif feature == "rates":
        choice = Random(f"switches of rates for {profile.seed}").choice
        config["dispatch_rates_count_entries"] = choice((False, True))
        config["dispatch_rates_without_backlog"] = choice((False, True))
        config["backlogged_cursor_entries"] = choice((1, 3, 1_000))
        config["stats_interval_ms"] = choice((1_000, 60_000))
    elif feature == "access":
        profile.topics, profile.producers = 1, 3
    elif feature == "transactions":
        config["transactions_enabled"] = True
        config["max_active_transactions"] = choice((0, 0, 0, 2))
        if not {"types", "access"} & profile.features:
            profile.topics, profile.producers = choice((2, 3)), 3
    elif feature == "types":
        profile.topics, profile.subscriptions = 1, min(profile.subscriptions, 2)
        config["failover_delay_ms"] = choice((0, 0, 10, 1_000))
        config["failover_ring_for_partitions"] = choice((False, True))
        config["key_shared_ring"] = choice((False, True))
        config["key_shared_ring_points"] = choice((1, 3, 100))
        config["look_ahead_per_consumer"] = choice((0, 3, 2_000))
        config["look_ahead_per_subscription"] = choice((5, 20_000))
