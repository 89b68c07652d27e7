"""A disk that lets nothing be renamed or removed for a while: what is not needed any more is given back afterwards."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.ledgers import LedgersTrimmed
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.storage.disk.layout import Layout
from tests.contract.storages import FailingDisk, FileWorld
from tests.entry_runs import run_of


class Refusing(FailingDisk):
    """While it refuses, no file is renamed or removed."""

    refusing = False

    def rename(self, old: Path, new: Path) -> None:
        self._ask()
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self._ask()
        super().remove(path)

    def _ask(self) -> None:
        if self.refusing:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))


class RefusingWorld(FileWorld):
    disk: Refusing

    def append(self, ledger_id: int, entries: int) -> None:
        for entry_id in range(entries):
            self.apply_and_submit(EntriesAppended(run_of(ledger_id, entry_id, [b"x" * 4000])))


def test_segments_and_files_of_ledgers_are_given_back_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.contract.storages.FailingDisk", Refusing)
    world = RefusingWorld(tmp_path)
    layout = Layout(world.data_dir)
    world.apply_and_submit(TopicCreated(1, "persistent://public/default/t", 1, {}))
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
    world.append(1, 40)
    world.checkpoint()
    assert list(layout.ledger_files()) == [1]
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 3))
    world.append(2, 60)
    world.apply_and_submit(LedgersTrimmed(1, [1]))
    old = [*layout.segments()][:-1]
    assert old
    world.disk.refusing = True
    with pytest.raises(OSError, match="Permission denied"):
        world.checkpoint()
    assert 1 in layout.ledger_files()
    world.disk.refusing = False
    world.checkpoint()
    assert 1 not in layout.ledger_files()
    assert not set(old) & layout.segments().keys()
    assert len(world.read_all(2)) == 60
    world.dispose()
