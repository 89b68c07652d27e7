"""Distribution of test files to the workers of xdist; takes the place of its `--dist loadfile`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SHARED_BY_FILES = ("rolling_broker", "limited_broker", "configured_broker", "switched_broker", "own_broker")
"""Fixtures of special brokers that several files use; a file that uses two goes with the first of them."""
BUSY = ("tests/jobs/", "tests/spark/", "tests/simulation/", "tests/property/", "tests/architecture/", "tests/unit/")
"""Folders whose tests keep a processor busy, those with a Spark first. All others wait for timers and disks."""
TOGETHER = "tests/architecture/"
"""Folder whose files share what they have parsed: the whole package and all tests."""


class FilesInLanes(LoadFileScheduling):
    """Sends files that keep a processor busy to the first half of the workers, in the order of `BUSY`, and files that
    wait to the rest; a worker takes files from the end of the other lane when its own is empty.

    Otherwise all workers wait at first, and all compete for the processors later. Spark starts in the first half of the
    workers only, and the files that are left to the end are short.
    """

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self._busy_workers = max(1, self.numnodes // 2)

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER if nodeid.startswith(TOGETHER) else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        is_busy = int(node.gateway.id.removeprefix("gw")) < self._busy_workers
        lane = [scope for scope in self.workqueue if (_rank(scope) < len(BUSY)) is is_busy]
        scope = min(lane, key=_rank) if lane else max(self.workqueue, key=_rank)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


def _rank(scope: str) -> int:
    """Returns the place of the folder in `BUSY`, or the length of that."""
    return next((place for place, folder in enumerate(BUSY) if scope.startswith(folder)), len(BUSY))


class FilesByBroker(LoadFileScheduling):
    """Sends all files that use the same special broker to the same worker: there is one start of an Apache Pulsar for
    them, which takes the processors half a minute."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((name for name in SHARED_BY_FILES if name in _text_of(self.config.rootpath / file)), file)


@cache
def _text_of(path: Path) -> str:
    return path.read_text()
