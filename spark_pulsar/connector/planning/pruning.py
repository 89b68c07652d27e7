"""Pruning: the partitions that the keys of a read can be in, where the user states how producers hash (READ-23).
(`offsets.endpoints` finds the window of `startingTime` and `endingTime`, READ-24.)

A read without `keysHashingScheme` reads all partitions, and so does one of a topic whose number of partitions changed
while a query ran, from then on: keys that were published before are elsewhere than those published later.

A partition that is not read is a part of every offset all the same: its end is passed at once. So keys may change from
one run of a query to the next, or go, and what the query has passed is not read again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeVar

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.names import TopicName

LOG: Final = logging.getLogger("spark_pulsar")

Item = TypeVar("Item")

CHANGED: Final = 0
"""Number of partitions of a topic where keys are no longer in the partition that their hash says."""


class KeyPruning:
    """Choice of the partitions to read by the keys of a read; all, without keys or without the hashing of producers
    (OFFSET-15).

    Numbers of partitions are by full name of the topic; a topic that is not among them is read whole.
    """

    def __init__(self, client: PulsarClient, options: Options) -> None:
        self._client = client
        scheme = options.keys_hashing_scheme
        self._hashes = None if options.keys is None or scheme is None else options.keys.hashes(scheme)
        self._unpruned = frozenset(options.retry_letter_topics)
        """Topics of which all is read: letters are written by consumers, whose clients hash as they like."""
        self._places: dict[int, frozenset[int]] = {}
        """Partitions of the keys, by the number of partitions that a topic has."""

    def partition_counts(self, topics: Collection[str], before: Mapping[str, int]) -> dict[str, int]:
        """Requests the number of partitions of each topic; `CHANGED` where it differs from `before`.

        To be called after the ends of a read are known: a partition that came later has no message before them.
        """
        if self._hashes is None:
            return {}
        bases = {name.base.full for name in map(TopicName.parse, topics) if name.partition >= 0}
        counts: dict[str, int] = {}
        for base, partitions in self._client.partitions_of_each(sorted(bases - self._unpruned)).items():
            count = 1 if isinstance(partitions, TopicNotFound) else len(partitions)
            counts[base] = count if before.get(base, count) == count else CHANGED
            if counts[base] == CHANGED and before[base] != CHANGED:
                LOG.warning(
                    "%s has %d partitions and had %d: keys hash to others now, so all are read, and rows are chosen "
                    "by their keys",
                    base,
                    count,
                    before[base],
                )
        return counts

    def split(self, at: Mapping[str, Item], counts: Mapping[str, int]) -> tuple[dict[str, Item], dict[str, Item]]:
        """Splits items by topic partition: those of partitions to read, and those of partitions that no key hashes
        to."""
        read = {topic: item for topic, item in at.items() if self._is_read(topic, counts)}
        return read, {topic: item for topic, item in at.items() if topic not in read}

    def ranges(self, ranges: Sequence[TopicRange], counts: Mapping[str, int]) -> list[TopicRange]:
        """Returns the ranges of the partitions to read."""
        return [work for work in ranges if self._is_read(work.topic, counts)]

    def _is_read(self, topic: str, counts: Mapping[str, int]) -> bool:
        if self._hashes is None:
            return True
        name = TopicName.parse(topic)
        count = counts.get(name.base.full, CHANGED)
        if not 0 <= name.partition < count:
            return True
        if count not in self._places:
            self._places[count] = frozenset(value % count for value in self._hashes)
        return name.partition in self._places[count]
