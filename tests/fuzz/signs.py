"""Signs of life of the broker under attack: its process, its memory, its log, its files."""

from __future__ import annotations

import os
import re
import urllib.request
from pathlib import Path
from typing import Final

from spark_pulsar.testing.process import BrokerProcess
from spark_pulsar.testing.security import ADMIN_ROLE
from tests.fuzz.peer import Finding

_BUFFERS: Final = {
    "managedLedgerCacheSizeMB": 8,
    "maxMessagePublishBufferSizeInMB": 16,
    "maxConnectionBufferSizeInMB": 32,
}
CONF: Final[dict[str, object]] = {
    **_BUFFERS,
    "journalMaxSizeMB": 4,
    "managedLedgerMaxEntriesPerLedger": 500,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "acknowledgmentAtBatchIndexLevelEnabled": True,
    "transactionCoordinatorEnabled": True,
    "maxTopicsPerNamespace": 300,
    "maxNumPartitionsPerPartitionedTopic": 16,
    "maxSubscriptionsPerTopic": 20,
    "maxConsumersPerSubscription": 20,
    "maxProducersPerTopic": 50,
}
"""Configuration of the broker: segments and ledgers small, so that all that happens to files does, and a bound for
everything that attacks can make without end."""

STATE_MB: Final = 120
"""Memory for what attacks make and leave: four namespaces of up to 300 topics, their subscriptions, policies, schemas
and cursors, modules that are loaded by their first use, an inflated message or two, and what the allocator keeps."""
_KNOWN_FILES: Final = re.compile(
    r"VERSION|LOCK|checkpoint\.(sqlite|copy)(-wal|-shm|-journal|\.\w+)?|journal(/[\w.-]+)?|ledgers(/[\w.-]+)?|damaged"
)
_TROUBLE: Final = re.compile(
    r"Traceback|the broker's core stops|Task exception was never retrieved|never awaited|CRITICAL"
)


def memory_bound_mb(start_mb: float) -> float:
    """Bound of resident memory: what the broker starts with, the buffers that its configuration limits, and what
    attacks leave."""
    return start_mb + sum(_BUFFERS.values()) + STATE_MB


class Signs:
    """Signs of one broker whose data are in `cage/a/data`; attacks that escape from there leave files in the cage."""

    def __init__(self, broker: BrokerProcess, cage: Path) -> None:
        self._broker = broker
        self._cage = cage
        self._pid = broker.pid
        self._log_bytes = 0
        self.start_mb = self.memory_mb()
        self.bound_mb = memory_bound_mb(self.start_mb)

    def check(self) -> None:
        """Raises Finding when something is wrong."""
        self.check_log()
        if not self._broker.is_running or self._broker.pid != self._pid:
            raise Finding(f"the broker has ended; its log ends with\n{self._broker.log[-3_000:]}")
        if self.memory_mb() > self.bound_mb:
            raise Finding(f"the broker has {self.memory_mb():.0f} MB, at most {self.bound_mb:.0f} are allowed")
        admin = self._broker.as_role(ADMIN_ROLE)
        request = urllib.request.Request(f"{admin.admin_url}/admin/v2/brokers/health", headers=admin.admin_headers)
        with urllib.request.urlopen(request, timeout=60, context=admin.tls_context()) as answer:
            if answer.read() != b"ok":
                raise Finding("the broker says that it is not healthy")
        self.check_files()

    def check_log(self) -> None:
        """Looks through what is new in the log."""
        with self._broker.log_path.open("rb") as log:
            log.seek(self._log_bytes)
            new = log.read()
        self._log_bytes += len(new)
        text = new.decode(errors="replace")
        found = _TROUBLE.search(text)
        if found is not None:
            raise Finding(
                f"{found[0]!r} in the broker's log:\n{text[max(0, found.start() - 500) : found.start() + 6_000]}"
            )

    def check_files(self) -> None:
        """Looks for files that should not be."""
        data = self._broker.data_dir
        for path in self._cage.rglob("*"):
            if path in (data, *data.parents):
                continue
            name = (
                str(path.relative_to(data)) if path.is_relative_to(data) else f"outside: {path.relative_to(self._cage)}"
            )
            if _KNOWN_FILES.fullmatch(name) is None:
                raise Finding(f"a stray file: {name}")

    def memory_mb(self) -> float:
        """Resident memory of the broker."""
        pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
