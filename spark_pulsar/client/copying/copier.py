"""Copies of many partitions at once, within a budget of memory (MOVE-4)."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.copying.partition_copy import Comparison, PartitionCopy, PartitionRoute, Progress, SourceEnd
from spark_pulsar.client.copying.position_map import PositionMap
from spark_pulsar.client.reading.positions import after_entry
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import Position

DEFAULT_MEMORY_BYTES: Final = 128 * 1024 * 1024
DEFAULT_AT_ONCE: Final = 4
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME: Final = 80


class CopiedPartition(NamedTuple):
    """The outcome of one partition."""

    route: PartitionRoute
    comparison: Comparison | None
    """None where the copy failed."""
    error: PulsarError | None

    @property
    def is_equal(self) -> bool:
        """Returns whether the target has all that the source has, and nothing else."""
        return self.comparison is not None and not self.comparison.difference


def positions_file(directory: Path, source: str) -> Path:
    """Returns the file of positions of a partition: its name as far as a file may have it, and a part of a hash."""
    name = _UNFIT.sub("-", source.removeprefix("persistent://"))[:_LONGEST_NAME]
    return directory / f"{name}-{sha256(source.encode()).hexdigest()[:16]}.positions"


class Copier:
    """Copies partitions between two clusters, up to their ends when `copy` is called.

    Directory: where a file for each partition knows the new positions. At most `at_once` partitions are copied at a
    time, and at most about `memory_bytes` of entries are in memory, one entry of each always.
    """

    def __init__(
        self,
        source: PulsarClient,
        target: PulsarClient,
        directory: Path,
        *,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        at_once: int = DEFAULT_AT_ONCE,
    ) -> None:
        self._source = source
        self._target = target
        self._directory = directory
        self._at_once = max(1, at_once)
        self._memory_bytes = max(1, memory_bytes // self._at_once)
        self._lock = threading.Lock()

    def positions(self, route: PartitionRoute) -> PositionMap:
        """Opens the new positions of a partition."""
        return PositionMap(positions_file(self._directory, route.source), route.source, route.target)

    def copy(
        self,
        routes: Sequence[PartitionRoute],
        progress: Progress = lambda entries, size_bytes: None,
        last_entries: Mapping[str, Position] | None = None,
    ) -> list[CopiedPartition]:
        """Copies partitions and compares both sides; one that fails keeps none of the others waiting. `progress` is
        called by one thread at a time, once for an entry that is copied and once for one that is compared.
        `last_entries` are those of the sources, where they are known (MOVE-8)."""
        ends = self._source.end_positions([route.source for route in routes])
        self._source.discard([route.source for route in routes])

        def counted(entries: int, size_bytes: int) -> None:
            with self._lock:
                progress(entries, size_bytes)

        def work(route: PartitionRoute) -> CopiedPartition:
            announced = known = ends[route.source]
            last = (last_entries or {}).get(route.source)
            if last is not None and last >= announced.position:
                known = after_entry(announced._replace(ledger_id=last.ledger_id, entry_id=last.entry_id))
            return self._copied(route, SourceEnd(announced, known), counted)

        with ThreadPoolExecutor(self._at_once, thread_name_prefix="pulsar-copy") as threads:
            return list(threads.map(work, routes))

    def _copied(self, route: PartitionRoute, end: SourceEnd, progress: Progress) -> CopiedPartition:
        try:
            file = positions_file(self._directory, route.source)
            copy = PartitionCopy(self._source, self._target, route, file, self._memory_bytes)
            try:
                copy.run(end, progress)
                return CopiedPartition(route, copy.compare(end, progress), None)
            finally:
                copy.close()
        except PulsarError as error:
            return CopiedPartition(route, None, error)
