"""One recording and its cuts: an image of the directory for each, a broker on it, the judge, and a second cut."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.storage.offline.repair import repair
from spark_pulsar.testing.process import BrokerProcess
from tests.brokers import Broker

from .account import Account
from .conversation import Said, conversation
from .disk_after_cut import DiskAfterCut
from .judge import Judge, require_none
from .load import CONF, Load
from .recording import Record, interesting, read_recording, without_syncs

_ENOUGH = 12
"""Places of one kind from which on another one is as likely to be chosen."""

_BYTES_AN_INPUT = 40_000
"""Size of a recording for each message that its transactions may consume."""

_BAD_WORDS = ("Traceback", " ERROR ", " WARNING ", "damaged")


class _RecordedBroker(BrokerProcess):
    """A broker that records what it does from its start on."""

    _module = "tests.power_cuts.recorded_broker"

    def __init__(self, data_dir: Path, recording: Path, conf: dict[str, Any]) -> None:
        super().__init__(data_dir, conf)
        self.recording = recording

    def start(self, timeout_s: float = 60.0) -> None:
        """Starts the broker and a new recording."""
        with _told(self.data_dir, self.recording):
            super().start(timeout_s)


@contextmanager
def _told(data_dir: Path, recording: Path) -> Iterator[None]:
    """Tells processes that are started what to record, and where to."""
    os.environ |= {"RECORDING": str(recording), "RECORDED": str(data_dir)}
    try:
        yield
    finally:
        del os.environ["RECORDING"], os.environ["RECORDED"]


@contextmanager
def _recorded(data_dir: Path, recording: Path, conf: dict[str, Any]) -> Iterator[tuple[Broker, BrokerProcess]]:
    with _RecordedBroker(data_dir, recording, conf) as process:
        yield Broker("ours", process.service_url, process.admin_url, process), process


class _Life:
    """One recorded load: on which directory it began, and what was promised before. Lives of one directory follow one
    another with a power cut between them."""

    def __init__(self, before: Path, recording: Path, promised: list[tuple[list[Said], int]]) -> None:
        self.before = before
        self.promised = promised
        self.set(read_recording(recording))

    def set(self, records: list[Record]) -> None:
        """Takes these records for the recording."""
        self.records = records
        self.said = conversation(records)
        self.places = interesting(records)

    def account(self, at: int) -> Account:
        """The account at a cut."""
        account = Account()
        for said, upto in [*self.promised, (self.said, at)]:
            account.take(said, upto)
        return account


class PowerCuts:
    """Recorded loads and their cuts. With the same recordings and seed a number always means the same cut."""

    def __init__(self, kept: Path, work: Path, seed: int, sizes_bytes: Sequence[int]) -> None:
        """`kept`: a folder with recordings, or for them, one a life; `sizes_bytes` are about their sizes. `work`: a
        folder for images, which are removed when nothing was wrong with them."""
        self._work = work
        self._seed = seed
        self._lives: list[_Life] = []
        self.open_transactions = 0
        """Transactions that were open after the cuts."""
        self.lost_ends = 0
        """Ends of transactions that were asked for and not answered before the cuts."""
        for life, size_bytes in enumerate(sizes_bytes, 1):
            self._live(kept, life, size_bytes)

    def _live(self, kept: Path, life: int, size_bytes: int) -> None:
        recording, before, data = kept / f"recording-{life}", self._work / f"before-{life}", self._work / "data"
        promised: list[tuple[list[Said], int]] = []
        if self._lives:
            last = self._lives[-1]
            choices = random.Random(f"{self._seed}/life {life}")
            at = choices.randrange(len(last.records) // 2, len(last.records))
            _image(last.before, last.records, at, before, choices)
            promised = [*last.promised, (last.said, at)]
        else:
            before.mkdir()
        if not recording.exists():
            shutil.copytree(before, data)
            with _recorded(data, recording, CONF) as (broker, process):
                load = Load(broker, process, self._seed, life, inputs=size_bytes // _BYTES_AN_INPUT)
                load.run(lambda: recording.stat().st_size >= size_bytes, timeout_s=300)
            shutil.rmtree(data)
        self._lives.append(_Life(before, recording, promised))

    @property
    def description(self) -> str:
        """The recordings in numbers."""
        account = self._lives[-1].account(len(self._lives[-1].records))
        records = [record for life in self._lives for record in life.records]
        kinds = Counter(record[0] for record in records)
        syncs = kinds["sync"] + sum(record[0] == "write" and record[5] for record in records)
        return (
            f"{len(records)} records, {kinds['write']} writes, {syncs} syncs, {kinds['rename']} renames, "
            f"{account.receipts} receipts, {len(account.transactions)} transactions, {account.answers} other answers"
        )

    def forget(self, unsynced: str) -> None:
        """Makes the recording that of a broker without some syncs (`recording.without_syncs`)."""
        for life in self._lives:
            life.set(without_syncs(life.records, unsynced))

    def cut(self, number: int, after: float = 0.0) -> str:
        """Cuts once, and a second time while the broker recovers or is judged; judges both. Returns a line about it.
        `after`: share of the recording that comes before any cut."""
        choices = random.Random(f"{self._seed}/{number}")
        life = self._lives[number % len(self._lives)]
        at = _place(choices, life.places, len(life.records))
        at = max(at, int(after * len(life.records)))
        account = life.account(at)
        work = self._work / f"cut-{number}"
        work.mkdir()
        _image(life.before, life.records, at, work / "first", choices)
        records, said = self._judge(work / "first", work / "recording", account, f"judge-{number}")
        ready = next(place for place, record in enumerate(records) if record[0] == "made")
        end = choices.choice((ready, len(records)))
        again = _place(choices, interesting(records[:end]), end)
        account.take(said, again)
        _image(work / "first.before", records, again, work / "second", choices)
        self._judge(work / "second", work / "recording", account, f"judge-{number}-again")
        shutil.rmtree(work)
        return f"cut {number}: at {at} of {len(life.records)} records, again at {again}, {account.receipts} receipts"

    def cut_repair(self, number: int) -> str:
        """Cuts once, destroys the checkpoint, repairs that by its copy, and cuts the repair; repairs again and judges.
        Returns a line about it."""
        choices = random.Random(f"{self._seed}/repair {number}")
        life, work, account = self._lives[-1], self._work / f"repair-{number}", Account()
        work.mkdir()
        for attempt in range(_ENOUGH):
            at = choices.randrange(len(life.records) // 2, len(life.records))
            image, account = work / f"{attempt}", life.account(at)
            _image(life.before, life.records, at, image, choices)
            _destroy_checkpoint(image, choices)
            if any("this copy of the checkpoint is whole" in each.text for each in check(image)):
                break  # else it was just being made anew
        shutil.copytree(image, work / "before")
        recording = work / "recording"
        with _told(image, recording):
            subprocess.run([sys.executable, "-m", "tests.power_cuts.recorded_repair"], check=True, timeout=60)
        records = read_recording(recording)
        again = _place(choices, interesting(records), len(records))
        _image(work / "before", records, again, work / "second", choices)
        repair(work / "second")
        self._judge(work / "second", recording, account, f"judge-repair-{number}", is_repaired=True)
        shutil.rmtree(work)
        return f"repair {number}: at {at} of {len(life.records)}, cut at {again} of {len(records)} records"

    def _judge(
        self, image: Path, recording: Path, account: Account, name: str, *, is_repaired: bool = False
    ) -> tuple[list[Record], list[Said]]:
        shutil.copytree(image, image.with_name(f"{image.name}.before"))
        if account.answers or (image / "VERSION").exists():  # else it may have been cut while it was made
            findings = check(image)
            bad = [
                str(each)
                for each in findings
                if each.severity is Severity.ERROR or (not is_repaired and "damaged" in each.text)
            ]
            require_none("found", bad)
        with _recorded(image, recording, CONF) as (broker, process):
            judge = Judge(broker, account, name)
            try:
                judge.judge()
            except BaseException:
                print(f"{image.name}, is running: {process.is_running}\n{process.log}")
                raise
            self.open_transactions += judge.open_transactions
            self.lost_ends += judge.lost_ends
            process.kill()
            lines = process.log.splitlines()
            require_none("logged", [line for line in lines if any(word in line for word in _BAD_WORDS)])
        require_none("set aside", [] if is_repaired else [path.name for path in image.glob("damaged/*")])
        records = read_recording(recording)
        return records, conversation(records)


def _image(before: Path, records: list[Record], at: int, target: Path, choices: random.Random) -> None:
    """Makes the directory as a cut before the record `at` may leave it, `before` being what the recording began on."""
    disk = DiskAfterCut(before)
    for record in records[:at]:
        disk.take(record)
    disk.cut(target, choices)


def _destroy_checkpoint(image: Path, choices: random.Random) -> None:
    """Damages the checkpoint beyond use, as no power cut does."""
    database = image / "checkpoint.sqlite"
    if choices.random() < 0.5:
        database.unlink()
    else:
        database.write_bytes(choices.randbytes(8192))


def _place(choices: random.Random, places: dict[str, list[int]], end: int) -> int:
    """A place to cut at: half of them anywhere, half just before or after something interesting, each kind of it
    that is not rare as often."""
    if choices.random() < 0.5 or not places:
        return choices.randint(0, end)
    kinds = sorted(places)
    [kind] = choices.choices(kinds, [min(len(places[each]), _ENOUGH) for each in kinds])
    return choices.choice(places[kind]) + choices.randint(0, 1)
