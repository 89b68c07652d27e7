"""Subscriptions over REST (admin-rest.md 1.6). Each function runs in the core and raises its refusals.

A function that may have to read entries first takes `answer`, and calls it with None when all is done, in this turn or
a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.entities import subscription as subscriptions
from spark_pulsar.broker.lifetime import expire_by_time as expire_now
from spark_pulsar.broker.subscriptions import cursor_moves, subscribing
from spark_pulsar.broker.topics import auto_creation, lifecycle, name_limits, partitions
from spark_pulsar.ledger.records.cursors import CursorPropertiesSet
from spark_pulsar.model.errors import NotAllowed, ProducerBusy, TopicNotFound
from spark_pulsar.model.ids import EARLIEST, LATEST, Position

from .answers import Refused, text_map, whole_number
from .slices import at_once
from .topics import check_namespace, existing, partitions_in_steps

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.model.names import TopicName

    from .slices import Steps

Answer = Callable[[None], None]


class Place(NamedTuple):
    """A MessageId or ResetCursorData of a request (admin-rest.md 0.4)."""

    position: Position
    batch_index: int = -1
    partition: int = -1
    excluded: bool = False
    properties: Mapping[str, str] = {}


def place_in(body: Any) -> Place | None:
    """Reads the place that a body names, `latest` and `earliest` too; None when it names none."""
    if body is None or body == {}:
        return None
    if body in ("latest", "earliest"):
        return Place(LATEST if body == "latest" else EARLIEST)
    if not isinstance(body, Mapping):
        raise Refused(400, "message id: want an object with ledgerId and entryId")
    numbers = {
        name: whole_number(body[name], name)
        for name in ("ledgerId", "entryId", "partitionIndex", "batchIndex")
        if body.get(name) is not None
    }
    if "ledgerId" not in numbers or "entryId" not in numbers:
        if body.get("properties"):
            return Place(LATEST, properties=text_map(body["properties"], "properties"))
        raise Refused(400, "message id: want ledgerId and entryId")
    return Place(
        Position(numbers["ledgerId"], numbers["entryId"]),
        numbers.get("batchIndex", -1),
        numbers.get("partitionIndex", -1),
        bool(body.get("excluded") or body.get("isExcluded")),
        text_map(body.get("properties"), "properties"),
    )


# ---- finding ----------------------------------------------------------------------------------------------------


def names_of(core: Core, name: TopicName) -> Steps[list[str]]:
    """Returns the names of subscriptions of a topic, or of all partitions of one."""
    found: dict[str, None] = {}
    for topic in (yield from partitions_in_steps(core, name)):
        found |= dict.fromkeys(topic.subscriptions)
        yield
    return list(found)


def is_known(core: Core, name: TopicName, subscription: str) -> bool:
    """Tells whether the topic, or a partition of it, has a subscription of this name."""
    full = name.full
    if not name.is_persistent:
        return any(
            subscription in each.subscriptions
            for each in core.non_persistent.by_name.values()
            if each.name.base == name.base
        )
    states = (state for known, state in core.state.topics_by_name.items() if known.startswith(full))
    return any(subscription in state.cursors for state in states)


def one(core: Core, name: TopicName, subscription: str, *, refusal: str = "") -> Subscription:
    """Finds a subscription of a topic or partition. 404 when either is missing; 405 with the refusal's text for a
    partitioned parent."""
    check_namespace(core, name)
    if refusal and registry.partition_count(core, name) is not None:
        raise Refused(405, refusal)
    return _in(existing(core, name), subscription)


def every_in_steps(core: Core, name: TopicName, subscription: str) -> Steps[list[Subscription]]:
    """Finds a subscription of a topic, or of all partitions that have it. 404 when there is none."""
    if registry.partition_count(core, name) is None:
        return [_in(existing(core, name), subscription)]
    found = yield from partitions_in_steps(core, name)
    having = [topic.subscriptions[subscription] for topic in found if subscription in topic.subscriptions]
    if not having:
        raise _missing(subscription, name.full)
    return having


every = at_once(every_in_steps)


def is_there(subscription: Subscription) -> bool:
    """Tells whether a subscription that was found before was not deleted meanwhile."""
    return subscription.topic.subscriptions.get(subscription.name) is subscription


def _in(topic: Topic, subscription: str) -> Subscription:
    found = topic.subscriptions.get(subscription)
    if found is None:
        raise _missing(subscription, topic.full_name)
    return found


def _missing(subscription: str, full_name: str) -> Refused:
    return Refused(404, f"Subscription {subscription} not found for topic {full_name}")


# ---- coming and going -------------------------------------------------------------------------------------------


def create_in_steps(core: Core, name: TopicName, subscription: str, place: Place | None, answer: Answer) -> Steps[None]:
    """Creates a durable subscription at a place, by default the end; on all partitions of a partitioned topic."""
    if not name.is_persistent:
        raise Refused(400, "Create subscription on non-persistent topic can only be done through client")
    check_namespace(core, name)
    _check_name(subscription)
    place = (place or Place(LATEST))._replace(excluded=False)  # as Apache Pulsar: it means something to a reset only
    try:
        found = yield from _obtain(core, name, subscription, place.properties)
    except TopicNotFound as error:
        raise Refused(412, "Topic does not exist and cannot be auto-created") from error
    lacking = [topic for topic in found if subscription not in topic.subscriptions]
    if not lacking:
        raise Refused(409, "Subscription already exists for topic")
    done = _after(len(lacking), answer)
    for topic in lacking:
        if subscription in topic.subscriptions or core.topics.get(topic.full_name) is not topic:
            done()  # somebody else was quicker, or deleted the topic
            continue
        made = lifecycle.create_subscription(core, topic, subscription, lifecycle.at_end(topic), place.properties)
        if place.position == LATEST:
            done()
        else:
            _reset(core, made, place, done)
        yield


create = at_once(create_in_steps)


def _check_name(subscription: str) -> None:
    try:
        subscriptions.check_subscription_name(subscription)
        name_limits.check_name("Subscription name", subscription)
    except (ProducerBusy, NotAllowed) as error:
        raise Refused(412, error.message) from error


def _obtain(core: Core, name: TopicName, subscription: str, properties: Mapping[str, str]) -> Steps[list[Topic]]:
    """Returns the topic or all its partitions, created as the policy of auto-creation says when they are missing
    (TN-7)."""
    count = registry.partition_count(core, name)
    policies = core.policies_of(name)
    is_new = count is None and name.partition < 0 and not registry.exists(core, name)
    if is_new and policies.auto_topic_creation.allowed and policies.auto_topic_creation.partitions:
        count = policies.auto_topic_creation.partitions
    partitions.check_subscription(count or 1, subscription, properties)
    if is_new and count is not None:
        yield from lifecycle.create_partitioned_in_steps(core, name, count, {})
    if count is None:
        return [auto_creation.obtain(core, name, may_create=True)]
    found: list[Topic] = []
    for index in range(count):
        found.append(auto_creation.obtain(core, name.at_partition(index), may_create=True))
        yield
    return found


def delete_in_steps(core: Core, name: TopicName, subscription: str, *, force: bool) -> Steps[None]:
    """Deletes a subscription with its backlog; connected consumers protect it unless forced (CUR-16)."""
    if registry.partition_count(core, name) is None:
        found = [one(core, name, subscription)]
    else:
        partitions_found = yield from partitions_in_steps(core, name)
        found = [each.subscriptions[subscription] for each in partitions_found if subscription in each.subscriptions]
        if not found:
            raise Refused(404, "Subscription not found")
    if not force and any(each.consumers for each in found):
        raise Refused(412, "Subscription has active connected consumers")
    for each in found:
        if is_there(each):
            if not force and each.consumers:
                raise Refused(412, "Subscription has active connected consumers")
            subscribing.delete(core, each)
        yield


delete = at_once(delete_in_steps)


def properties_of(core: Core, name: TopicName, subscription: str) -> Steps[dict[str, str]]:
    """Returns a subscription's properties; of a partitioned topic those of all partitions together (CUR-19)."""
    merged: dict[str, str] = {}
    for each in (yield from every_in_steps(core, name, subscription)):
        merged.update(each.cursor.properties)
        yield
    return merged


def set_properties(core: Core, name: TopicName, subscription: str, properties: Mapping[str, str]) -> Steps[None]:
    """Replaces a subscription's properties (CUR-19)."""
    found = yield from every_in_steps(core, name, subscription)
    partitions.check_subscription(len(found), subscription, properties)
    for each in found:
        yield
        if not is_there(each):
            continue
        if each.is_durable:
            core.append(CursorPropertiesSet(each.cursor.cursor_id, dict(properties)))
        else:
            each.cursor.properties = dict(properties)


def check_stored(name: TopicName, what: str) -> None:
    """Refuses an operation on a topic that stores nothing: 405."""
    if not name.is_persistent:
        raise Refused(405, f"{what} on a non-persistent topic is not allowed")


# ---- moving -----------------------------------------------------------------------------------------------------


def clear_backlog_in_steps(core: Core, name: TopicName, subscription: str) -> Steps[None]:
    """Acknowledges everything (CUR-14)."""
    check_stored(name, "Clear backlog")
    for each in (yield from every_in_steps(core, name, subscription)):
        if is_there(each):
            cursor_moves.clear_backlog(core, each)
        yield


clear_backlog = at_once(clear_backlog_in_steps)


def skip(core: Core, name: TopicName, subscription: str, entries: int) -> None:
    """Acknowledges the next entries (CUR-14)."""
    check_stored(name, "Skip messages")
    found = one(core, name, subscription, refusal="Skip messages on a partitioned topic is not allowed")
    cursor_moves.skip(core, found, entries)


def reset_to_time_in_steps(core: Core, name: TopicName, subscription: str, time_ms: int, answer: Answer) -> Steps[None]:
    """Moves the cursor to the first entry published at or after the time (CUR-12)."""
    found = yield from every_in_steps(core, name, subscription)
    if not name.is_persistent:  # there is nowhere to go (NP-5)
        answer(None)
        return
    done = _after(len(found), answer)
    for each in found:
        if is_there(each):
            cursor_moves.reset_to_time(core, each, time_ms, done)
        else:
            done()
        yield


reset_to_time = at_once(reset_to_time_in_steps)


def reset_to_place(core: Core, name: TopicName, subscription: str, place: Place, answer: Answer) -> None:
    """Moves the cursor to a place (CUR-11)."""
    check_stored(name, "Reset-cursor at position")
    refusal = "Reset-cursor at position is not allowed for partitioned-topic"
    _reset(core, one(core, name, subscription, refusal=refusal), place, lambda: answer(None))


def expire_by_time_in_steps(core: Core, name: TopicName, subscription: str, age_s: int, answer: Answer) -> Steps[None]:
    """Acknowledges entries older than an age (TTL-8). 409 when nothing is left to expire."""
    found = yield from every_in_steps(core, name, subscription)
    wanted = [each for each in found if each.is_durable and each.backlog > 0]
    if not wanted:
        raise Refused(
            409,
            f"Expire message by timestamp not issued on topic {name.full} for subscription {subscription} due to "
            "ongoing message expiration not finished or subscription almost catch  up. If it's performed on a "
            "partitioned topic operation might succeeded on other partitions, please check stats of individual "
            "partition.",
        )
    yield from _expire(core, wanted, age_s, answer)


expire_by_time = at_once(expire_by_time_in_steps)


def expire_all_by_time(core: Core, name: TopicName, age_s: int, answer: Answer) -> Steps[None]:
    """Acknowledges entries older than an age for every subscription (TTL-8)."""
    wanted: list[Subscription] = []
    for topic in (yield from partitions_in_steps(core, name)):
        wanted += [each for each in topic.subscriptions.values() if each.is_durable and each.backlog > 0]
        yield
    yield from _expire(core, wanted, age_s, answer)


def _expire(core: Core, wanted: list[Subscription], age_s: int, answer: Answer) -> Steps[None]:
    if not wanted:
        answer(None)
        return
    done = _after(len(wanted), answer)
    for each in wanted:
        if is_there(each):
            expire_now.older_than(core, each, core.now_ms - 1000 * age_s, done)
        else:
            done()
        yield


def expire_to_place(core: Core, name: TopicName, subscription: str, place: Place) -> None:
    """Acknowledges entries up to a place, inclusive unless it is excluded (TTL-8). 409 when no entry is there."""
    refusal = "Expire message at position is not supported for partitioned-topic"
    found = one(core, name, subscription, refusal=refusal)
    if place.partition >= 0 and name.partition >= 0 and place.partition != name.partition:
        raise Refused(412, "Invalid parameter for expire message by position: partition index of the message id")
    ledger = found.topic.ledger
    through = ledger.previous_position(place.position) if place.excluded else place.position
    if not ledger.contains(place.position) or place.position > found.topic.last_add_confirmed:
        raise Refused(
            409,
            f"Expire message by position not issued on topic {name.full} for subscription {subscription} due to "
            "ongoing message expiration not finished or invalid message position provided.",
        )
    cursor_moves.mark_deleted(core, found, through)


def _reset(core: Core, subscription: Subscription, place: Place, done: Callable[[], None]) -> None:
    cursor_moves.reset_to_position(
        core, subscription, place.position, done, batch_index=place.batch_index, excluded=place.excluded
    )


def _after(count: int, answer: Answer) -> Callable[[], None]:
    """Returns a function that answers when it was called `count` times."""
    left = count

    def done() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            answer(None)

    return done
