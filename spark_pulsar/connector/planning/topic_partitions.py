"""Topic partitions that a read covers: requested in every trigger, so that new ones are found while it runs
(OFFSET-11)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.topics import split_pattern
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.names import TopicName

LOG: Final = logging.getLogger("spark_pulsar")

Answer = TypeVar("Answer")

_FIRST_PAUSE_S: Final = 0.25
_LAST_PAUSE_S: Final = 5.0
_LOG_EVERY_S: Final = 60.0


def find_partitions(
    client: PulsarClient, options: Options, *, known: frozenset[str] = frozenset(), may_lack: bool = False
) -> list[str]:
    """Full names of all topic partitions to read, sorted.

    A topic named by the user must exist, unless any `may_lack`, or partitions of it are in `known` (the query has read
    it before): then it has vanished and simply is not in the answer. A pattern may match nothing, and retry letter
    topics need not exist. Raises TopicNotFound.
    """
    names = _retry_letter_partitions(client, options)
    if options.topics_pattern is not None:
        return sorted({*names, *topics_of_pattern(client, options.topics_pattern)})
    for topic, partitions in client.partitions_of_each(options.named_topics).items():
        if not isinstance(partitions, TopicNotFound):
            names += partitions
            continue
        base = TopicName.parse(topic)
        was_read = any(base in (TopicName.parse(name), TopicName.parse(name).base) for name in known)
        if not was_read and not may_lack:
            raise partitions
    return sorted(set(names))


def check_found(topics: Sequence[str], known: Collection[str], options: Options) -> None:
    """Refuses a named topic that never was, and a named partition. One that vanished is a loss, reported elsewhere; a
    partition of a named topic that is not there yet, while partitions are added, is found by the next trigger. Raises
    TopicNotFound."""
    unknown = [topic for topic in topics if topic not in known]
    bases = {TopicName.parse(topic).base for topic in known} if unknown else set()
    missing = [topic for topic in unknown if topic in options.named_topics or TopicName.parse(topic).base not in bases]
    if missing:
        raise TopicNotFound(f"topic {missing[0]} not found")


def _retry_letter_partitions(client: PulsarClient, options: Options) -> list[str]:
    """Finds the partitions of the retry letter topics, as far as these exist (LETTER-2)."""
    named = options.retry_letter_topics
    there = client.partitions_of_each(named).values() if named else ()
    return [topic for partitions in there if not isinstance(partitions, TopicNotFound) for topic in partitions]


def when_they_exist(
    options: Options, query: Callable[[], Answer], begin_waiting: Callable[[], object] = lambda: None
) -> Answer:
    """Returns the answer of `query` about all topics; with `waitingForNonExistedTopic` repeats it until all exist,
    after `begin_waiting` (READ-5).

    Has no end of its own: Spark ends the process when a query is stopped, or a job cancelled.
    """
    pause_s, waited_s, logged_s = _FIRST_PAUSE_S, 0.0, 0.0
    is_waiting = False
    while True:
        try:
            return query()
        except TopicNotFound as missing:
            if not options.waiting_for_non_existed_topic:
                raise
            if not is_waiting or waited_s - logged_s >= _LOG_EVERY_S:
                LOG.warning("waitingForNonExistedTopic: %s; waiting for it since %d s", missing, waited_s)
                logged_s = waited_s
        if not is_waiting:
            is_waiting = True
            begin_waiting()
        threading.Event().wait(pause_s)
        waited_s += pause_s
        pause_s = min(2 * pause_s, _LAST_PAUSE_S)


def topics_of_pattern(client: PulsarClient, pattern: str) -> list[str]:
    """Full names of the topic partitions that `topicsPattern` matches, sorted."""
    namespace, local = split_pattern(pattern)
    names = (TopicName.parse(name) for name in client.topics_of(namespace, "persistent"))
    return sorted({name.full for name in names if not name.is_hidden and local.fullmatch(name.base.local)})
