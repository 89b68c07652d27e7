"""Damaged topics, of which storage lost entries: producers are refused, consumers stop before the lost entries.

Nothing is skipped in silence, and nothing new is stored behind a gap that was not accepted: a damaged topic is
read-only until `spark-pulsar check DIR --repair` accepts the loss. Then cursors pass over it, see `ManagedLedger`.
Until then no policy trims or expires anything (`policies`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities import producer as producers
from spark_pulsar.broker.entities import subscription as subscriptions
from spark_pulsar.ledger.state.damage import TopicDamaged
from spark_pulsar.model.errors import NotAllowed, PersistenceError
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import LATEST, Position

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.events import EntriesLost
    from spark_pulsar.ledger.state.damage import Damage

_ACKS_MS: Final = 1_000

_REPAIR: Final = "`spark-pulsar check DIR --repair`, with the broker stopped, goes on without it"


def admit_producer(topic: Topic) -> None:
    """Refuses, with NotAllowed, a producer of a damaged topic until it is repaired."""
    damage = topic.state.damage
    if damage is not None:
        raise NotAllowed(f"Topic {topic.name} is read-only, it is damaged: {damage}. {_REPAIR}")


def admit_consumer(subscription: Subscription, *, read_compacted: bool) -> None:
    """Refuses, with PersistenceError, when the next entry that the subscription wants cannot be read, or one of the
    compacted ledger that it wants to read."""
    topic = subscription.topic
    if topic.state.damage is None:
        return
    cursor = subscription.cursor
    wanted = cursor.unacked(cursor.next_to_read, LATEST, 1)
    damage = at(topic, Position(*wanted[0][:2])) if wanted else None
    compaction = topic.state.compaction
    if damage is None and read_compacted and compaction is not None and compaction.ledger is not None:
        ledger_id = compaction.ledger.ledger_id
        lost = [known for known in topic.state.damages if known.ledger_id == ledger_id and not known.accepted]
        damage = lost[0] if lost else None
    if damage is not None:
        raise PersistenceError(f"The next entry of {topic.name} cannot be read: {damage}. {_REPAIR}")


def at(topic: Topic, position: Position) -> Damage | None:
    """Returns the damage that holds the entry, unless it was accepted."""
    for damage in topic.state.damages:
        if damage.holds(*position) and not damage.accepted:
            return damage
    return None


def stop_soon(core: Core, subscription: Subscription) -> None:
    """Closes the consumers of a subscription whose next entry cannot be read, after the acks of entries before, which
    clients hold back for a moment. They come back, and receive the reason."""

    def stop() -> None:
        subscription.dispatcher.stopping = False
        subscriptions.disconnect(core, subscription)

    core.at(core.now_ms + _ACKS_MS, stop)


def on_entries_lost(core: Core, event: EntriesLost) -> None:
    """Makes topics read-only of which storage cannot read entries any more."""
    for ledger_id, first, end in event.spans:
        info = core.state.ledgers.get(ledger_id)
        if info is None:
            continue
        state = core.state.topics[info.topic_id]
        if any(damage[:3] == (ledger_id, first, end) for damage in state.damages):
            continue
        core.append(TopicDamaged(info.topic_id, ledger_id, first, end, event.place, event.text))
        name = TopicName.parse(state.name)
        core.policies.changed(name.namespace_name, name.base.full)  # nothing is trimmed or expired any more
        topic = core.topics.get(state.name)
        if topic is not None:
            for producer in list(topic.producers.values()):
                producers.disconnect_after_receipts(core, producer)
