"""Key_Shared: entries of one key are at one consumer at a time and come in order (KS-1, KS-10).

Known by the keys that clients gave alone; which consumer a key belongs to is the broker's business, as long as it does
not change while no consumer comes or goes. Only STICKY consumers name their sticky hashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mmh3

from spark_pulsar.broker.dispatch.key_shared.dispatcher import KeySharedDispatcher

from .comparing import Violation

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.consumer import Consumer

    from .account import Place, Sent

_MASK = 0x7FFF_FFFF
_STICKY_HASHES = 1 << 16


class KeyOrder:
    """Judges one delivery after another of one subscription to consumers that share its keys."""

    def __init__(self) -> None:
        self.members: list[Consumer] = []
        """Consumers at the last delivery."""
        self.homes: dict[bytes, Consumer] = {}
        """Consumer of each key since then."""
        self.given_back: set[Place] = set()
        """Negatively acked and not delivered again: these may come behind later ones of their key (KS-13)."""

    def see(
        self, where: str, place: Place, consumer: Consumer, unacked: dict[Place, Sent], held: dict[Place, Consumer]
    ) -> None:
        """Checks an entry that goes to a consumer. `unacked` is what must not be left out, `held` what each consumer
        was sent and neither acked nor gave back."""
        subscription = consumer.subscription
        dispatcher = subscription.dispatcher
        assert isinstance(dispatcher, KeySharedDispatcher)
        key = unacked[place].sticky_key
        if self.members != subscription.consumers:
            self.members, self.homes = list(subscription.consumers), {}
        home = self.homes.setdefault(key, consumer)
        if home is not consumer:
            raise Violation(f"{where}: {place} of {key!r} goes to {consumer.name}, others to {home.name} (KS-1)")
        sticky_hash = _hash_of(key) % _STICKY_HASHES or 1
        if consumer.hash_ranges and not any(first <= sticky_hash <= last for first, last in consumer.hash_ranges):
            raise Violation(
                f"{where}: {place} of sticky hash {sticky_hash} goes to {consumer.name}: {consumer.hash_ranges} (KS-7)"
            )
        if dispatcher.keeps_order:
            for each, sent in unacked.items():
                if sent.sticky_key == key and each != place:
                    self._check_pair(where, place, each, sent, consumer, held.get(each))
        self.given_back.discard(place)

    def _check_pair(
        self, where: str, place: Place, other: Place, sent: Sent, consumer: Consumer, holder: Consumer | None
    ) -> None:
        """An entry goes to a consumer while another one of its key is not acked."""
        if holder is not None and holder in consumer.subscription.consumers:
            if holder is not consumer:
                raise Violation(
                    f"{where}: {place} goes to {consumer.name} while {holder.name} holds {other} of its key (KS-1)"
                )
        elif other < place and not sent.deliver_at_ms and other not in self.given_back:
            raise Violation(f"{where}: {place} goes to {consumer.name} before {other} of its key (KS-1)")


def _hash_of(key: bytes) -> int:
    return mmh3.hash(key, 0, signed=False) & _MASK


def free_to_go(
    places: list[Place],
    log: dict[Place, Sent],
    held: dict[Place, Consumer],
    dispatcher: KeySharedDispatcher,
) -> list[Place]:
    """Selects wanted entries that no consumer holds and that could be sent: their consumer can receive, and no other
    one holds entries of the sticky hash (KS-10)."""
    config, consumers = dispatcher.core.config, dispatcher.subscription.consumers
    limits = (config.look_ahead_per_consumer * len(consumers), config.look_ahead_per_subscription)
    if any(0 < limit <= dispatcher.replay_count for limit in limits):
        return []
    sticky_hash_of = {
        place: dispatcher.selector.sticky_hash_of(_hash_of(sent.sticky_key)) for place, sent in log.items()
    }
    holders: dict[int, set[Consumer]] = {}
    for place, holder in held.items():
        if place in sticky_hash_of and holder in consumers:
            holders.setdefault(sticky_hash_of[place], set()).add(holder)
    free: list[Place] = []
    for place in places:
        owner = dispatcher.selector.owner(sticky_hash_of[place])
        if owner is not None and owner.can_receive and not holders.get(sticky_hash_of[place], set()) - {owner}:
            free.append(place)
    return free
