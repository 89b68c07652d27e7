"""Rules of consumers: who holds a subscription, and why the broker sends them nothing (WHY-4, WHY-5)."""

from __future__ import annotations

from typing import Final

from spark_pulsar.admin.diagnosis.facts import FULL_RANGE, Consumer
from spark_pulsar.admin.diagnosis.findings import (
    Cause,
    Finding,
    admin_namespaces,
    admin_topics,
    counted,
    listed,
    plural,
)
from spark_pulsar.admin.diagnosis.view import View

_TYPES: Final = ("Shared", "Key_Shared")
_SHOWN_RANGES: Final = 3


def exclusive(view: View) -> Finding | None:
    """Finds the one consumer of an Exclusive subscription."""
    if view.subscription.type != "Exclusive" or not view.subscription.consumers:
        return None
    holder = view.consumer_text(view.subscription.consumers[0])
    sentence = f"{view.name} is Exclusive and held by consumer {holder}; a second consumer is refused."
    return view.note(Cause.EXCLUSIVE, sentence, "Use Shared or Failover in all consumers, or close that one.")


def failover(view: View) -> Finding | None:
    """Finds consumers of a Failover subscription that wait for the active one to leave."""
    consumers = view.subscription.consumers
    if view.subscription.type != "Failover" or len(consumers) < 2:
        return None
    if not view.subscription.active_consumer:  # another one for each partition
        sentence = f"{view.name} is Failover: of its {len(consumers)} consumers one receives in each partition."
        return view.note(Cause.FAILOVER, sentence, "Use Shared to have all of them receive.")
    active = next(iter(view.receivers))
    others = listed(f'"{consumer.name}"' for consumer in consumers if consumer is not active)
    wait = "waits and receives" if len(consumers) == 2 else "wait and receive"
    sentence = (
        f"{view.name} is Failover: consumer {view.consumer_text(active)} is active, {others} {wait} nothing until it "
        f"leaves."
    )
    return view.note(Cause.FAILOVER, sentence, "Use Shared to have all of them receive, or close the active one.")


def unacked_consumer(view: View) -> Finding | None:
    """Finds consumers at their limit of unacknowledged messages."""
    blocked = [consumer for consumer in view.subscription.consumers if consumer.is_blocked]
    if not blocked:
        return None
    limit = view.policies.unacked_on_consumer
    at = f", the limit of a consumer ({limit:,})" if limit else ""
    names = listed(f'"{consumer.name}"' for consumer in blocked)
    held = listed(f"{consumer.unacked:,}" for consumer in blocked)
    verb = "holds" if len(blocked) == 1 else "hold"
    sentence = f"Consumer {names} of {view.name} {verb} {held} unacknowledged messages{at}: the broker sends no more."
    command = admin_topics("set-max-unacked-messages-per-consumer", view.facts.topic, "-m", str(2 * max(limit, 1)))
    advice = f"Acknowledge messages, or close the consumer, or run: {command}"
    return view.cause(Cause.UNACKED_CONSUMER, sentence, advice)


def unacked_subscription(view: View) -> Finding | None:
    """Finds a subscription at its limit, or at that of the broker, of unacknowledged messages."""
    if not view.subscription.is_blocked:
        return None
    unacked, limit = counted(view.subscription.unacked, "unacknowledged message"), view.policies.unacked_on_subscription
    if limit and view.subscription.unacked < limit and view.policies.unacked_on_broker:
        sentence = (
            f"The broker has reached its limit of {view.policies.unacked_on_broker:,} unacknowledged messages, and "
            f"sends nothing to {view.name}, which has {unacked}."
        )
        return view.cause(Cause.UNACKED_BROKER, sentence, "Acknowledge messages, or raise maxUnackedMessagesPerBroker.")
    at = f", its limit ({limit:,})" if limit else ""
    sentence = f"The consumers of {view.name} hold {unacked} together{at}: the broker sends no more."
    command = admin_topics("set-max-unacked-messages-per-subscription", view.facts.topic, "-m", str(2 * max(limit, 1)))
    return view.cause(Cause.UNACKED_SUBSCRIPTION, sentence, f"Acknowledge messages, or run: {command}")


def dispatch_rate(view: View) -> Finding | None:
    """Finds a backlog that a dispatch rate holds back."""
    throttled, rates = view.subscription.throttled, view.policies.rates
    levels = [level for level in ("subscription", "topic", "broker") if throttled.get(level)]
    lately = view.subscription.throttled_lately
    if not lately and not view.has_permits:
        levels = []
    levels = [level for level in levels if level in lately or (view.is_stuck and level in rates)]
    if not view.due or not levels:
        return None
    level = levels[0]
    rate = f" of {rates[level]}" if level in rates else ""
    sentence = (
        f"The dispatch rate of the {level}{rate} holds {view.name} back: {view.due:,} messages wait, "
        f"{view.subscription.sent_lately:,} were sent in the last {view.facts.window_s:.1f} s."
    )
    command = {
        "subscription": admin_topics("set-subscription-dispatch-rate", view.facts.topic, "-md", "-1", "-bd", "-1"),
        "topic": admin_topics("set-dispatch-rate", view.facts.topic, "-md", "-1", "-bd", "-1"),
        "broker": "set dispatchThrottlingRateInMsg and dispatchThrottlingRateInByte of the broker",
    }[level]
    return view.cause(Cause.DISPATCH_RATE, sentence, f"Wait, or raise it: {command}")


def keys_unowned(view: View) -> Finding | None:
    """Finds hash slots of keys that no consumer of a Key_Shared subscription in sticky mode owns."""
    if view.subscription.type != "Key_Shared" or view.subscription.key_shared_mode != "STICKY":
        return None
    gaps, next_slot = [], 0
    for low, high in sorted(pair for consumer in view.subscription.consumers for pair in consumer.hash_ranges):
        if low > next_slot:
            gaps.append((next_slot, low - 1))
        next_slot = max(next_slot, high + 1)
    if next_slot < FULL_RANGE:
        gaps.append((next_slot, FULL_RANGE - 1))
    if not gaps or not view.subscription.consumers:
        return None
    ranges = listed(f"{low}-{high}" for low, high in gaps[:_SHOWN_RANGES])
    sentence = (
        f"No consumer of {view.name} owns the hash ranges {ranges} of 0-{FULL_RANGE - 1}: messages of their keys "
        f"wait, and in time those behind them, too."
    )
    advice = "Connect a consumer with these sticky hash ranges, or have all consumers use AUTO_SPLIT."
    if view.is_stuck:
        return view.cause(Cause.KEYS_UNOWNED, sentence, advice)
    return view.note(Cause.KEYS_UNOWNED, sentence, advice)


def keys_draining(view: View) -> Finding | None:
    """Finds keys that wait for the consumer that had them before."""
    draining = [consumer for consumer in view.subscription.consumers if consumer.draining_hashes]
    if not draining or not view.due or view.subscription.out_of_order:
        return None
    hashes = sum(consumer.draining_hashes for consumer in draining)
    names = listed(f'"{consumer.name}" ({consumer.draining_unacked:,})' for consumer in draining)
    sentence = (
        f"{plural(hashes, 'hash', 'hashes')} of {view.name} moved to other consumers, which receive nothing of "
        f"their keys until the unacknowledged messages of {names} are acknowledged."
    )
    advice = "Acknowledge these messages, or close that consumer."
    if view.is_stuck and view.has_permits:
        return view.cause(Cause.KEYS_DRAINING, sentence, advice)
    return view.note(Cause.KEYS_DRAINING, sentence, advice)


def no_permits(view: View) -> Finding | None:
    """Finds consumers whose queues are full, because their application receives nothing."""
    full = [consumer for consumer in view.receivers if consumer.permits <= 0 and not consumer.is_blocked]
    if not full or not view.is_stuck or view.due <= view.unacked_entries:
        return None
    if len(full) < len(view.receivers) and view.subscription.type == "Shared":
        return None  # the others receive
    names = listed(f'"{consumer.name}"' for consumer in full)
    are = ("Consumer", "has", "its") if len(full) == 1 else ("Consumers", "have", "their")
    keys = " its keys" if len(full) < len(view.receivers) else ""
    sentence = (
        f"{are[0]} {names} of {view.name} {are[1]} no permits: {are[2]} receive queue is full "
        f"({sum(consumer.sent for consumer in full):,} sent), since the application does not receive{keys}; "
        f"{view.entries(view.due)} wait."
    )
    return view.cause(
        Cause.NO_PERMITS,
        sentence,
        "See what the application does between two receives, or add a consumer of type Shared.",
    )


def unacknowledged(view: View) -> Finding | None:
    """Finds a backlog of which consumers have all, and acknowledge none."""
    if not view.is_stuck or not view.subscription.sent:
        return None
    # Exclusive and Failover do not count unacknowledged messages: who has permits, and receives no more, has all.
    if view.unacked_entries < view.due if view.subscription.type in _TYPES else not view.has_permits:
        return None
    holders = [consumer for consumer in view.receivers if consumer.unacked or consumer.sent]
    names = listed(f"{view.consumer_text(consumer)} ({_held(consumer)})" for consumer in holders)
    if not holders:
        return None
    sentence = (
        f"The {view.entries(view.due)} of the backlog of {view.name} {'is' if view.due == 1 else 'are'} sent and "
        f"not acknowledged: {names}."
    )
    advice = "Acknowledge them; they are sent again after the consumer's ack timeout, a negative ack, or its close."
    return view.cause(Cause.UNACKNOWLEDGED, sentence, advice)


def _held(consumer: Consumer) -> str:
    return f"{consumer.unacked:,} unacknowledged" if consumer.unacked else f"{consumer.sent:,} sent"


def filtered(view: View) -> Finding | None:
    """Finds messages that entry filters refuse."""
    if not view.subscription.rejected or view.subscription.sent_lately:
        return None
    sentence = f"Entry filters refused {counted(view.subscription.rejected, 'message')} for {view.name}."
    return view.note(Cause.FILTERED, sentence, admin_topics("get-entry-filters", view.facts.topic))


def unexplained(view: View) -> Finding | None:
    """Finds a backlog that waits though consumers have permits."""
    if not view.is_stuck:
        return None
    permits = sum(max(0, consumer.permits) for consumer in view.receivers)
    sentence = (
        f"{view.entries(view.due)} of {view.name} wait though its consumers have {counted(permits, 'permit')}, "
        f"and nothing was sent in the last {view.facts.window_s:.1f} s; the statistics show no reason."
    )
    advice = f"See the broker's log, or run: {admin_topics('unload', view.facts.topic)}"
    return view.cause(Cause.UNEXPLAINED, sentence, advice)


def most_consumers(view: View) -> Finding | None:
    """Finds a limit of consumers that is reached: one more is refused."""
    consumers = len(view.subscription.consumers)
    limits = (
        (view.policies.max_consumers_of_subscription, consumers, view.name, "-per-subscription"),
        (
            view.policies.max_consumers,
            sum(len(subscription.consumers) for subscription in view.log.subscriptions.values()),
            "the topic",
            "",
        ),
    )
    for limit, count, of, words in limits:
        if 0 < limit <= count:
            sentence = f"{of} has {counted(count, 'consumer')}, the most that it may have: one more is refused."
            command = admin_topics(f"set-max-consumers{words}", view.facts.topic, "-c", str(2 * limit))
            return view.note(Cause.MOST_CONSUMERS, sentence[0].upper() + sentence[1:], command)
    return None


def types_disabled(view: View) -> Finding | None:
    """Finds subscription types that a policy refuses."""
    if not view.policies.types_enabled or view.subscription.consumers:
        return None
    enabled = listed(view.policies.types_enabled)
    sentence = f"Only subscriptions of type {enabled} are enabled: consumers of another type are refused."
    command = admin_namespaces("get-subscription-types-enabled", view.facts.topic)
    return view.note(Cause.TYPES_DISABLED, sentence, f"Use one of them; see: {command}")
