"""One recording and its cuts: an image of the directory for each, a broker on it, the judge, and a second cut."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark_pulsar.cli.process import BrokerProcess
from spark_pulsar.storage.offline.check import Severity, check
from tests.brokers import Broker

from .account import Account
from .conversation import Said, conversation
from .disk_after_cut import DiskAfterCut
from .judge import Judge, require_none
from .load import CONF, Load
from .recording import Record, interesting, read_recording, without_syncs

_ENOUGH = 12
"""Places of one kind from which on another one is as likely to be chosen."""

_BAD_WORDS = ("Traceback", " ERROR ", " WARNING ", "damaged")


class _RecordedBroker(BrokerProcess):
    """A broker that records what it does from its start on."""

    _module = "tests.power_cuts.recorded_broker"

    def __init__(self, data_dir: Path, recording: Path, conf: dict[str, Any]) -> None:
        super().__init__(data_dir, conf)
        self.recording = recording

    def start(self, timeout_s: float = 60.0) -> None:
        """Starts the broker and a new recording."""
        os.environ |= {"RECORDING": str(self.recording), "RECORDED": str(self.data_dir)}
        try:
            super().start(timeout_s)
        finally:
            del os.environ["RECORDING"], os.environ["RECORDED"]


@contextmanager
def _recorded(data_dir: Path, recording: Path, conf: dict[str, Any]) -> Iterator[tuple[Broker, BrokerProcess]]:
    with _RecordedBroker(data_dir, recording, conf) as process:
        yield Broker("ours", process.service_url, process.admin_url, process), process


class PowerCuts:
    """A recorded load and its cuts. With the same recording and seed a number always means the same cut."""

    def __init__(self, kept: Path, work: Path, seed: int, size_bytes: int, conf: dict[str, Any] | None = None) -> None:
        """`kept`: a folder with a recording, or for it; `size_bytes` is about its size. `work`: a folder for images,
        which are removed when nothing was wrong with them."""
        self._work = work
        self._seed = seed
        self._conf = CONF | (conf or {})
        recording = kept / "recording"
        if not recording.exists():
            with _recorded(work / "data", recording, self._conf) as (broker, process):
                Load(broker, process, seed).run(lambda: recording.stat().st_size >= size_bytes, timeout_s=300)
            shutil.rmtree(work / "data")
        self._empty = work / "empty"
        self._empty.mkdir()
        self._records = read_recording(recording)
        self._said = conversation(self._records)
        self._places = interesting(self._records)

    @property
    def description(self) -> str:
        """The recording in numbers."""
        account = Account()
        account.take(self._said, len(self._records))
        kinds = Counter(record[0] for record in self._records)
        syncs = kinds["sync"] + sum(record[0] == "write" and record[5] for record in self._records)
        return (
            f"{len(self._records)} records, {kinds['write']} writes, {syncs} syncs, {kinds['rename']} renames, "
            f"{account.receipts} receipts, {account.answers} other answers"
        )

    def forget(self, unsynced: str) -> None:
        """Makes the recording that of a broker without some syncs (`recording.without_syncs`)."""
        self._records = without_syncs(self._records, unsynced)
        self._said = conversation(self._records)
        self._places = interesting(self._records)

    def cut(self, number: int, after: float = 0.0) -> str:
        """Cuts once, and a second time while the broker recovers or is judged; judges both. Returns a line about it.
        `after`: share of the recording that comes before any cut."""
        choices = random.Random(f"{self._seed}/{number}")
        at = _place(choices, self._places, len(self._records))
        at = max(at, int(after * len(self._records)))
        account = Account()
        account.take(self._said, at)
        work = self._work / f"cut-{number}"
        work.mkdir()
        _image(self._empty, self._records, at, work / "first", choices)
        records, said = self._judge(work / "first", work / "recording", account, f"judge-{number}")
        ready = next(place for place, record in enumerate(records) if record[0] == "made")
        end = choices.choice((ready, len(records)))
        again = _place(choices, interesting(records[:end]), end)
        account.take(said, again)
        _image(work / "first.before", records, again, work / "second", choices)
        self._judge(work / "second", work / "recording", account, f"judge-{number}-again")
        shutil.rmtree(work)
        return f"cut {number}: at {at} of {len(self._records)} records, again at {again}, {account.receipts} receipts"

    def _judge(self, image: Path, recording: Path, account: Account, name: str) -> tuple[list[Record], list[Said]]:
        shutil.copytree(image, image.with_name(f"{image.name}.before"))
        if account.answers or (image / "VERSION").exists():  # else it may have been cut while it was made
            require_none("found", [str(each) for each in check(image) if each.severity is Severity.ERROR])
        with _recorded(image, recording, self._conf) as (broker, process):
            try:
                Judge(broker, account, name).judge()
            except BaseException:
                print(f"{image.name}, is running: {process.is_running}\n{process.log}")
                raise
            process.kill()
            lines = process.log.splitlines()
            require_none("logged", [line for line in lines if any(word in line for word in _BAD_WORDS)])
        require_none("set aside", [path.name for path in image.glob("damaged/*")])
        records = read_recording(recording)
        return records, conversation(records)


def _image(before: Path, records: list[Record], at: int, target: Path, choices: random.Random) -> None:
    """Makes the directory as a cut before the record `at` may leave it, `before` being what the recording began on."""
    disk = DiskAfterCut(before)
    for record in records[:at]:
        disk.take(record)
    disk.cut(target, choices)


def _place(choices: random.Random, places: dict[str, list[int]], end: int) -> int:
    """A place to cut at: half of them anywhere, half just before or after something interesting, each kind of it
    that is not rare as often."""
    if choices.random() < 0.5 or not places:
        return choices.randint(0, end)
    kinds = sorted(places)
    [kind] = choices.choices(kinds, [min(len(places[each]), _ENOUGH) for each in kinds])
    return choices.choice(places[kind]) + choices.randint(0, 1)
