"""Subscriptions and their cursors over REST (ADM-74, CUR-13). Each function runs in the core and raises its refusals.

A function that may have to read entries first takes `answer`, and calls it with None when all is done, in this turn or
a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote_plus

from spark_pulsar.admin.http.answers import text_map, whole_number
from spark_pulsar.admin.http.path_names import topic_name
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.http.slices import at_once
from spark_pulsar.admin.topics.non_persistent_refusals import check_persistent, check_stored
from spark_pulsar.admin.topics.topic_lifecycle import (
    check_namespace,
    existing,
    partitions_in_steps,
    subscription_not_found,
)
from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.entities import subscription as subscriptions
from spark_pulsar.broker.message_lifetime import expire_by_time as expire_now
from spark_pulsar.broker.subscriptions import cursor_moves, subscribing
from spark_pulsar.broker.topics import auto_creation, lifecycle, name_limits, partition_creation
from spark_pulsar.ledger.state.cursors.records import CursorPropertiesSet
from spark_pulsar.model.errors import NotAllowed, ProducerBusy, TopicNotFound
from spark_pulsar.model.positions.ids import EARLIEST, LATEST, Position

if TYPE_CHECKING:
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.model.names import TopicName

Answer = Callable[[Refused | None], None]

_OF_PERMISSIONS: Final = "permissions"
"""Paths on which a subscription is escaped once, since it need not exist."""
_SHORT_BACKLOG_ENTRIES: Final = 1_000
"""Backlog below which a connected consumer keeps entries from being expired by hand, unless they are old enough."""


class Place(NamedTuple):
    """A MessageId or ResetCursorData of a request."""

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
    names: dict[str, None] = {}
    for topic in (yield from partitions_in_steps(core, name)):
        names |= dict.fromkeys(topic.subscriptions)
        yield
    return list(names)


def subscription_in(core: Core, pattern: Sequence[str], parts: Mapping[str, str]) -> str:
    """Returns the subscription that a path names. Java's and Go's libraries escape it twice: of both readings the
    subscription that exists counts, and the one that is decoded twice where neither does (T-10)."""
    name = parts["subscription"]
    decoded = unquote_plus(name)
    if decoded == name or _OF_PERMISSIONS in pattern or _is_known(core, parts, name):
        return name
    return decoded


def _is_known(core: Core, parts: Mapping[str, str], subscription: str) -> bool:
    if "topic" in parts:
        domain = parts.get("domain", "persistent")
        topic = topic_name(domain, parts["tenant"], parts["namespace"], parts["topic"])
        return is_known(core, topic, subscription)
    return is_known_in_namespace(core, f"{parts['tenant']}/{parts['namespace']}", subscription)


def is_known(core: Core, name: TopicName, subscription: str) -> bool:
    """Returns whether the topic, or a partition of it, has a subscription of this name."""
    full = name.full
    if not name.is_persistent:
        return any(
            subscription in topic.subscriptions
            for topic in core.non_persistent.by_name.values()
            if topic.name.base == name.base
        )
    return _has_cursor(core, full, subscription)


def is_known_in_namespace(core: Core, namespace: str, subscription: str) -> bool:
    """Returns whether a topic of the namespace has a subscription of this name."""
    return _has_cursor(core, f"persistent://{namespace}/", subscription)


def _has_cursor(core: Core, prefix: str, subscription: str) -> bool:
    states = (state for known, state in core.state.topics_by_name.items() if known.startswith(prefix))
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
    topics = yield from partitions_in_steps(core, name)
    having = [topic.subscriptions[subscription] for topic in topics if subscription in topic.subscriptions]
    if not having:
        raise subscription_not_found(subscription, name.full)
    return having


every = at_once(every_in_steps)


def is_there(subscription: Subscription) -> bool:
    """Returns whether a subscription that was found before was not deleted meanwhile."""
    return subscription.topic.subscriptions.get(subscription.name) is subscription


def _in(topic: Topic, subscription: str) -> Subscription:
    target = topic.subscriptions.get(subscription)
    if target is None:
        raise subscription_not_found(subscription, topic.full_name)
    return target


# ---- coming and going -------------------------------------------------------------------------------------------


def create_in_steps(core: Core, name: TopicName, subscription: str, place: Place | None, answer: Answer) -> Steps[None]:
    """Creates a durable subscription at a place, by default the end; on all partitions of a partitioned topic."""
    check_persistent(name, 400, "Create subscription on non-persistent topic can only be done through client")
    check_namespace(core, name)
    _check_name(subscription)
    place = (place or Place(LATEST))._replace(excluded=False)  # as Apache Pulsar: it means something to a reset only
    try:
        topics = yield from _obtain(core, name, subscription, place.properties)
    except TopicNotFound as error:
        raise Refused(412, "Topic does not exist and cannot be auto-created") from error
    lacking = [topic for topic in topics if subscription not in topic.subscriptions]
    if not lacking:
        raise Refused(409, "Subscription already exists for topic")
    done = _after(len(lacking), lambda: answer(None))
    for topic in lacking:
        if subscription in topic.subscriptions or core.topics.get(topic.full_name) is not topic:
            done()  # another request was quicker, or deleted the topic
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
    partition_creation.check_subscription(count or 1, subscription, properties)
    if is_new and count is not None:
        yield from lifecycle.create_partitioned_in_steps(core, name, count, {})
    if count is None:
        return [auto_creation.obtain(core, name, may_create=True)]
    topics: list[Topic] = []
    for index in range(count):
        topics.append(auto_creation.obtain(core, name.at_partition(index), may_create=True))
        yield
    return topics


def delete_in_steps(core: Core, name: TopicName, subscription: str, *, force: bool) -> Steps[None]:
    """Deletes a subscription with its backlog; connected consumers protect it unless forced (CUR-16). 404 when a
    partition lacks it, after those that have it are done."""
    is_whole = True
    if registry.partition_count(core, name) is None:
        targets = [one(core, name, subscription)]
    else:
        partitions_found = yield from partitions_in_steps(core, name)
        targets = [
            topic.subscriptions[subscription] for topic in partitions_found if subscription in topic.subscriptions
        ]
        is_whole = bool(targets) and not any(
            subscription not in topic.subscriptions and core.topics.get(topic.full_name) is topic
            for topic in partitions_found
        )
    if not force and any(target.consumers for target in targets):
        raise Refused(412, "Subscription has active connected consumers")
    for target in targets:
        if is_there(target):
            if not force and target.consumers:
                raise Refused(412, "Subscription has active connected consumers")
            subscribing.delete(core, target)
        yield
    if not is_whole:
        raise Refused(404, "Subscription not found")


delete = at_once(delete_in_steps)


def properties_of(core: Core, name: TopicName, subscription: str) -> Steps[dict[str, str]]:
    """Returns a subscription's properties; of a partitioned topic those of all partitions together (CUR-19)."""
    merged: dict[str, str] = {}
    for target in (yield from every_in_steps(core, name, subscription)):
        merged.update(target.cursor.properties)
        yield
    return merged


def set_properties(core: Core, name: TopicName, subscription: str, properties: Mapping[str, str]) -> Steps[None]:
    """Replaces a subscription's properties (CUR-19)."""
    targets = yield from every_in_steps(core, name, subscription)
    partition_creation.check_subscription(len(targets), subscription, properties)
    for target in targets:
        yield
        if not is_there(target):
            continue
        if target.is_durable:
            core.append(CursorPropertiesSet(target.cursor.cursor_id, dict(properties)))
        else:
            target.cursor.properties = dict(properties)


# ---- moving -----------------------------------------------------------------------------------------------------


def clear_backlog_in_steps(core: Core, name: TopicName, subscription: str) -> Steps[None]:
    """Acknowledges everything (CUR-14)."""
    check_stored(name, "Clear backlog")
    for target in (yield from every_in_steps(core, name, subscription)):
        if is_there(target):
            cursor_moves.clear_backlog(core, target)
        yield


clear_backlog = at_once(clear_backlog_in_steps)


def skip(core: Core, name: TopicName, subscription: str, entries: int) -> None:
    """Acknowledges the next entries (CUR-14)."""
    check_stored(name, "Skip messages")
    target = one(core, name, subscription, refusal="Skip messages on a partitioned topic is not allowed")
    cursor_moves.skip(core, target, entries)


def reset_to_time_in_steps(core: Core, name: TopicName, subscription: str, time_ms: int, answer: Answer) -> Steps[None]:
    """Moves the cursor to the first entry published at or after the time (CUR-12)."""
    targets = yield from every_in_steps(core, name, subscription)
    if not name.is_persistent:  # there is nowhere to go (NP-5)
        answer(None)
        return
    done = _after(len(targets), lambda: answer(None))
    for target in targets:
        if is_there(target):
            cursor_moves.reset_to_time(core, target, time_ms, done)
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
    """Acknowledges entries older than an age (TTL-8)."""
    targets = yield from every_in_steps(core, name, subscription)
    yield from _expire(core, targets, age_s, answer)


expire_by_time = at_once(expire_by_time_in_steps)


def expire_all_by_time(core: Core, name: TopicName, age_s: int, answer: Answer) -> Steps[None]:
    """Acknowledges entries older than an age for every durable subscription (TTL-8)."""
    durable: list[Subscription] = []
    for topic in (yield from partitions_in_steps(core, name)):
        durable += [subscription for subscription in topic.subscriptions.values() if subscription.is_durable]
        yield
    yield from _expire(core, durable, age_s, answer)


def _expire(core: Core, targets: Sequence[Subscription], age_s: int, answer: Answer) -> Steps[None]:
    """Expires entries of each subscription, and answers 409 for the first one where nothing was to be expired: it has
    no backlog, or a short one that a connected consumer is about to receive."""
    wanted = [target for target in targets if target.is_durable and target.backlog > 0]
    # Where a mark-delete position has to move: elsewhere a backlog is enough.
    stood_at = {target: target.cursor.mark_delete if _is_nearly_done(target) else None for target in wanted}

    def done() -> None:
        for target in targets:
            now_at = target.cursor.mark_delete
            if is_there(target) and stood_at.get(target, now_at) == now_at:
                answer(_nothing_expired(target))
                return
        answer(None)

    if not wanted:
        done()
        return
    each_done = _after(len(wanted), done)
    for target in wanted:
        if is_there(target):
            expire_now.older_than(core, target, core.wall_ms - 1000 * age_s, each_done)
        else:
            each_done()
        yield


def _is_nearly_done(subscription: Subscription) -> bool:
    return bool(subscription.consumers) and subscription.backlog < _SHORT_BACKLOG_ENTRIES


def _nothing_expired(subscription: Subscription) -> Refused:
    return Refused(
        409,
        f"Expire message by timestamp not issued on topic {subscription.topic.full_name} for subscription "
        f"{subscription.name} due to ongoing message expiration not finished or subscription almost catch  up. If it's "
        "performed on a partitioned topic operation might succeeded on other partitions, please check stats of "
        "individual partition.",
    )


def expire_to_place(core: Core, name: TopicName, subscription: str, place: Place) -> None:
    """Acknowledges entries up to a place, inclusive unless it is excluded (TTL-8). 409 when no entry is there."""
    refusal = "Expire message at position is not supported for partitioned-topic"
    target = one(core, name, subscription, refusal=refusal)
    if place.partition >= 0 and name.partition >= 0 and place.partition != name.partition:
        raise Refused(412, "Invalid parameter for expire message by position: partition index of the message id")
    ledger = target.topic.ledger
    through = ledger.previous_position(place.position) if place.excluded else place.position
    if not ledger.contains(place.position) or place.position > target.topic.last_add_confirmed:
        raise Refused(
            409,
            f"Expire message by position not issued on topic {name.full} for subscription {subscription} due to "
            "ongoing message expiration not finished or invalid message position provided.",
        )
    target.note_expired(cursor_moves.mark_deleted(core, target, through), core.wall_ms)


def _reset(core: Core, subscription: Subscription, place: Place, done: Callable[[], None]) -> None:
    cursor_moves.reset_to_position(
        core, subscription, place.position, done, batch_index=place.batch_index, excluded=place.excluded
    )


def _after(count: int, call: Callable[[], None]) -> Callable[[], None]:
    """Returns a function that calls when it was called `count` times."""
    left = count

    def done() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            call()

    return done
