"""Kinds of subscriptions: their type, and how Key_Shared assigns keys."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from spark_pulsar.wire.pulsar_api_pb2 import STICKY, CommandSubscribe

from .profile import Profile

EXCLUSIVE, SHARED = CommandSubscribe.Exclusive, CommandSubscribe.Shared
FAILOVER, KEY_SHARED = CommandSubscribe.Failover, CommandSubscribe.Key_Shared

IN_ORDER: Final = (EXCLUSIVE, FAILOVER)
"""Types that send everything to one consumer; it may ack cumulatively."""
DEALT_OUT: Final = (SHARED, KEY_SHARED)
"""Types whose consumers hold the entries that they were sent."""

STICKY_KEYS: Final = ("u", "v", "w", "x", "y", "z")
ALL_STICKY_HASHES: Final = (0, 65_535)
_RANGES: Final = (ALL_STICKY_HASHES, (0, 32_767), (32_768, 65_535), (0, 20_000), (20_001, 60_000))


@dataclass(frozen=True, slots=True)
class Kind:
    """Type and mode that the consumers of a subscription ask for."""

    type: CommandSubscribe.SubType.ValueType
    any_order: bool = False
    """Key_Shared: keys may move at once (KS-11)."""
    is_sticky: bool = False
    """Key_Shared: each consumer names its sticky hashes (KS-7)."""

    def shape(self, command: CommandSubscribe, sticky_hashes: tuple[int, int] = ALL_STICKY_HASHES) -> None:
        """Makes a SUBSCRIBE one of this kind."""
        if self.type == KEY_SHARED:
            command.keySharedMeta.keySharedMode = STICKY if self.is_sticky else 0  # type: ignore[assignment]
            command.keySharedMeta.allowOutOfOrderDelivery = self.any_order
            if self.is_sticky:
                command.keySharedMeta.hashRanges.add(start=sticky_hashes[0], end=sticky_hashes[1])


def draw_kinds(profile: Profile, plain: list[CommandSubscribe.SubType.ValueType]) -> list[Kind]:
    """The kind of each subscription; without the feature these plain ones."""
    kinds = [Kind(each) for each in plain]
    if "types" in profile.features:
        random = Random(f"kinds for {profile.seed}")
        kinds = [draw_kind(random) for _ in plain]
    if "delays" in profile.features and kinds[0].type in IN_ORDER:
        kinds[0] = Kind(SHARED)
    return kinds


def draw_kind(random: Random) -> Kind:
    """Any kind; mostly those that only some histories have."""
    kind = random.choice((FAILOVER, FAILOVER, KEY_SHARED, KEY_SHARED, KEY_SHARED, SHARED))
    if kind != KEY_SHARED:
        return Kind(kind)
    return Kind(kind, random.random() < 0.2, random.random() < 0.3)


def draw_sticky_hashes(random: Random) -> tuple[int, int]:
    """Slots that a consumer names, from ... to, both inclusive."""
    return random.choice(_RANGES)
