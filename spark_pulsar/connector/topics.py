"""Topic partitions that a read covers: asked for in every trigger, so that new ones are found while it runs."""

from __future__ import annotations

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.options import Options, split_pattern
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.names import TopicName


def find_partitions(
    client: PulsarClient, options: Options, *, known: frozenset[str] = frozenset(), may_lack: bool = False
) -> list[str]:
    """Full names of all topic partitions to read, sorted.

    A topic named by the user must exist, unless any `may_lack`, or partitions of it are in `known` (the query has read
    it before): then it has vanished and simply is not in the answer. A pattern may match nothing. Raises TopicNotFound.
    """
    if options.topics_pattern is not None:
        return topics_of_pattern(client, options.topics_pattern)
    found: list[str] = []
    named = options.topics if options.topic is None else (options.topic,)
    for topic, partitions in client.partitions_of_each(named).items():
        if not isinstance(partitions, TopicNotFound):
            found += partitions
            continue
        base = TopicName.parse(topic)
        was_read = any(base in (TopicName.parse(name), TopicName.parse(name).base) for name in known)
        if not was_read and not may_lack:
            raise partitions
    return sorted(set(found))


def topics_of_pattern(client: PulsarClient, pattern: str) -> list[str]:
    """Full names of the topic partitions that `topicsPattern` matches, sorted."""
    namespace, local = split_pattern(pattern)
    names = (TopicName.parse(name) for name in client.topics_of(namespace, "persistent"))
    return sorted({name.full for name in names if not name.is_hidden and local.fullmatch(name.base.local)})
