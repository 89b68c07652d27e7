"""Quotas of size beside the account: how much lies behind the slowest subscription, and when it is looked at."""

from __future__ import annotations

from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.topic_log import backlog_size

from .account import Account
from .judge import Violation


def check(core: Core, account: Account) -> None:
    """Quotas know how much lies behind the slowest subscription, and look before it is too much (BQ-1)."""
    for topic in core.topics.values():
        mark = min((cursor.mark_delete for cursor in topic.state.cursors.values()), default=None)
        if topic.quota is None or mark is None:
            continue
        log = account.topics[topic.full_name].log
        backlog = sum(len(sent.entry) for place, sent in log.items() if place > mark)
        least, most = backlog_size.least_backlog_bytes(topic), backlog_size.most_backlog_bytes(topic)
        if not least <= backlog <= most:
            raise Violation(f"{topic.name}: {backlog} bytes of backlog, should be {least} to {most}")
        if topic.quota.has_size and not topic.quota.is_checking:
            unseen = max(0, topic.check_at_bytes - topic.bytes_in)
            if backlog + unseen > max(topic.quota.size.limit_bytes, backlog + 1):
                raise Violation(f"{topic.name}: {backlog} bytes of backlog, and the next look is late (BQ-1)")
