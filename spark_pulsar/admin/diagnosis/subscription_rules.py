"""Rules of a subscription: its position, its backlog, and what its topic keeps of messages (WHY-2, WHY-3)."""

from __future__ import annotations

from spark_pulsar.admin.diagnosis.facts import Log
from spark_pulsar.admin.diagnosis.findings import Cause, Finding, admin_topics, counted, listed, plural
from spark_pulsar.admin.diagnosis.view import View


def no_consumer(view: View) -> Finding | None:
    """Finds a subscription without consumers."""
    if view.subscription.consumers:
        return None
    if any(_has_consumers(log, view.subscription.name) for log in view.facts.logs):
        return None  # other partitions have: `topic_rules.unread_partitions`
    sentence = f"No consumer is connected to {view.name}; {view.waiting()}."
    advice = "Start its consumer"
    if view.subscription.backlog:
        advice += f"; see the messages by: {view.command('peek-messages', '-n', '10')}"
    return view.cause(Cause.NO_CONSUMER, sentence, advice)


def _has_consumers(log: Log, subscription: str) -> bool:
    return subscription in log.subscriptions and bool(log.subscriptions[subscription].consumers)


def transaction_open(view: View) -> Finding | None:
    """Finds messages behind the first one of an open transaction, which wait for its end."""
    if not view.is_stuck or not (view.log.open_transactions or view.facts.transactions):
        return None
    producing = [transaction for transaction in view.facts.transactions if transaction.produces]
    if not producing and view.facts.transactions:
        first = min(view.facts.transactions, key=lambda transaction: transaction.since_ms)
        sentence = (
            f"Messages of {view.name} are acknowledged in the open transaction {first.id} since "
            f"{view.time(first.since_ms)}, and wait for its end."
        )
        return view.cause(Cause.TRANSACTION, sentence, f"Commit it, or run: {_abort(first.id)}")
    if not view.log.open_transactions or view.due <= view.unacked_entries:
        return None
    count = counted(view.log.open_transactions, "open transaction")
    wait = f"{view.entries(view.due)} of {view.name} wait{'s' if view.due == 1 else ''} for {count}"
    if not producing:
        advice = "Commit or abort it; a super user sees it by: spark-pulsar admin transactions slow-transactions -t 1s"
        return view.cause(Cause.TRANSACTION, f"{wait}: consumers receive nothing behind its first message.", advice)
    first = min(producing, key=lambda transaction: transaction.since_ms)
    sentence = f"{wait}, the oldest of which, {first.id}, is open since {view.time(first.since_ms)}."
    return view.cause(Cause.TRANSACTION, sentence, f"Commit it, or run: {_abort(first.id)}")


def _abort(transaction: str) -> str:
    most, _, least = transaction.strip("()").partition(",")
    return f"spark-pulsar admin transactions abort-transaction -m {most} -l {least}"


def delayed(view: View) -> Finding | None:
    """Finds messages that are not due yet."""
    subscription = view.subscription
    if not subscription.delayed or subscription.sent_lately:
        return None
    first = view.facts.first_messages.get(subscription.name)
    is_known = first is not None and first.deliver_at_ms > view.facts.now_ms
    until = f", the first one until {view.time(first.deliver_at_ms)}" if first is not None and is_known else ""
    advice = view.command("peek-messages", "-n", "1")
    if view.due <= view.unacked_entries:
        which = f"{counted(subscription.delayed, 'message')} of {view.name} {_is(subscription.delayed)} delayed{until}"
        behind = f", and {subscription.unacked:,} sent and unacknowledged" if subscription.unacked else ""
        return view.cause(Cause.DELAYED, f"{which}{behind}; no other message waits.", f"Wait; see one by: {advice}")
    sentence = f"{subscription.delayed:,} of the {subscription.backlog:,} messages of {view.name} are delayed{until}."
    return view.note(Cause.DELAYED, sentence, f"See one by: {advice}")


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def expired(view: View) -> Finding | None:
    """Finds messages that the time to live took from the subscription."""
    subscription = view.subscription
    if not subscription.expired:
        return None
    ttl = f"the time to live of {view.policies.ttl_s} s" if view.policies.ttl_s else "a time to live, or a command,"
    at = f", the last at {view.time(subscription.last_expire_ms)}" if subscription.last_expire_ms else ""
    sentence = f"{counted(subscription.expired, 'message')} of {view.name} expired by {ttl} before consumption{at}."
    advice = f"Consume faster, or run: {admin_topics('set-message-ttl', view.facts.topic, '-t', '0')}"
    if not subscription.backlog and subscription.last_expire_ms > subscription.last_sent_ms:
        return view.cause(Cause.EXPIRED, sentence, advice)
    return view.note(Cause.EXPIRED, sentence, advice)


def evicted(view: View) -> Finding | None:
    """Finds messages that a backlog quota took from the slowest subscriptions."""
    if not view.log.evicted or view.subscription.sent_lately:
        return None
    sentence = (
        f"The backlog quota of the topic evicted messages from its slowest subscriptions {view.log.evicted:,} times."
    )
    advice = f"Consume faster, or raise it: {admin_topics('get-backlog-quotas', view.facts.topic)}"
    return view.note(Cause.EVICTED, sentence, advice)


def deleted(view: View) -> Finding | None:
    """Finds a topic of which every message was deleted before the subscription had one."""
    subscription, log = view.subscription, view.log
    if subscription.backlog or subscription.sent or subscription.expired or not view.facts.topic.startswith("pers"):
        return None
    if not log.is_empty or not (log.had_entries or log.published) or log.published_lately:
        return None
    minutes, size_mb = view.policies.retention or (0, 0)
    sentence = (
        f"The messages of the topic are deleted, and {view.name} has received none: every subscription of then had "
        f"acknowledged them, and retention is {minutes} minutes and {size_mb} MB."
    )
    command = admin_topics("set-retention", view.facts.topic, "-t", "7d", "-s", "1G")
    advice = f"Publish again; for the next time: {command}"
    return view.cause(Cause.DELETED, sentence, advice)


def at_latest(view: View) -> Finding | None:
    """Finds a subscription that begins behind all stored messages."""
    subscription, log = view.subscription, view.log
    has_received = subscription.sent or subscription.last_acked_ms or subscription.expired
    if subscription.backlog or has_received or not subscription.consumers or log.is_empty or not log.published:
        return None
    stored = plural(log.entries, "stored entry", "stored entries") if log.entries else "stored messages"
    last = f", the last of {view.time(log.last_publish_ms)}" if log.last_publish_ms else ""
    sentence = f"{view.name} stands at the latest position, behind the {stored}{last}, and has received none of them."
    advice = f"To read them, run: {view.command('reset-cursor', '-m', 'earliest')}"
    return view.cause(Cause.AT_LATEST, sentence, advice)


def received(view: View) -> Finding | None:
    """Finds a subscription that receives messages now."""
    subscription = view.subscription
    if not subscription.sent_lately:
        return None
    who = listed(f'"{consumer.name}"' for consumer in view.receivers)
    sentence = (
        f"{view.name} received {counted(subscription.sent_lately, 'message')} in the last {view.facts.window_s:.1f} s "
        f"({who}); its backlog is {subscription.backlog:,}."
    )
    return view.ok(Cause.RECEIVED, sentence)


def all_acknowledged(view: View) -> Finding | None:
    """Finds a subscription that has acknowledged all there is."""
    subscription, log = view.subscription, view.log
    if subscription.backlog or subscription.sent_lately or not (log.published or not log.is_empty):
        return None
    count = len(log.publishers)
    producers = f"{counted(count, 'producer')} {_is(count)} connected" if count else "no producer is connected"
    last = f" since {view.time(log.last_publish_ms)}" if log.last_publish_ms else ""
    has_received = subscription.sent or subscription.last_acked_ms
    done = "has acknowledged all messages" if has_received else "has no message before it"
    sentence = f"{view.name} {done}; nothing new was published{last}, and {producers}."
    return view.ok(Cause.ALL_ACKNOWLEDGED, sentence)


def nothing_published(view: View) -> Finding | None:
    """Finds a topic without any message."""
    subscription, log = view.subscription, view.log
    if subscription.backlog or log.published or log.had_entries or not log.is_empty:
        return None
    count = len(log.publishers)
    producers = f"{counted(count, 'producer')} {_is(count)} connected" if count else "no producer is connected"
    return view.ok(Cause.NOTHING_PUBLISHED, f"Nothing was published to the topic yet, and {producers}.")


def not_stored(view: View) -> Finding | None:
    """Finds a subscription of a topic that stores nothing."""
    if not view.facts.topic.startswith("non-persistent"):
        return None
    rate = view.subscription.dropped
    lost = f" ({rate:.1f} messages a second are discarded now)" if rate else ""
    sentence = (
        f"A non-persistent topic stores nothing: a message goes to {view.name} only if a consumer can receive it at "
        f"once{lost}."
    )
    return view.note(Cause.NOT_STORED, sentence, "Connect consumers before producers, or use a persistent:// topic.")


def replicated(view: View) -> Finding | None:
    """Finds a position that other clusters move."""
    if not view.subscription.is_replicated or len(view.policies.clusters) < 2:
        return None
    clusters = listed(view.policies.clusters)
    sentence = f"{view.name} is replicated between {clusters}: what another cluster acknowledged is not sent here."
    command = view.command("set-replicated-subscription-status", "--disable")
    return view.note(Cause.REPLICATED, sentence, f"To keep positions apart, run: {command}")


def encrypted(view: View) -> Finding | None:
    """Finds encrypted messages, whose keys no statistics show."""
    first = view.facts.first_messages.get(view.subscription.name)
    if first is None or not first.is_encrypted:
        return None
    sentence = (
        f"The first message of {view.name} is encrypted: a consumer without its private key receives none, and no "
        f"statistics show that."
    )
    return view.note(Cause.ENCRYPTED, sentence, "Give the consumer a CryptoKeyReader with the private key.")
