"""Bound of the replay at opening: a checkpoint is due before it is too much."""

from pathlib import Path

import pytest

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors.records import CursorAcked, CursorCreated
from spark_pulsar.ledger.state.ledgers import LedgerOpened
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.storage import files
from spark_pulsar.storage.files import FileStorage
from tests.entry_runs import run_of


def test_strewn_acks_make_a_checkpoint_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers CUR-5: a million holes are replayed in a second or two, however few records they are in
    monkeypatch.setattr(files, "REPLAY_RECORDS", 1_000)
    storage, state = FileStorage.open(tmp_path / "data", on_failed=print)

    def submit(*records: Record) -> None:
        for record in records:
            apply(state, record)
        storage.submit(records)

    submit(
        TopicCreated(1, "persistent://public/default/t", 0, {}),
        LedgerOpened(1, 1, 0),
        CursorCreated(1, 1, "s", 1, -1, 0, {}),
        EntriesAppended(run_of(1, 0, [b"x"] * 10_000)),
    )
    for first in range(0, 7_000, 200):
        submit(CursorAcked(1, [(1, entry_id, entry_id + 1) for entry_id in range(first + 1, first + 200, 2)]))
    assert not storage.needs_checkpoint()
    submit(CursorAcked(1, [(1, entry_id, entry_id + 1) for entry_id in range(7_001, 10_000, 2)]))
    assert storage.needs_checkpoint()
    storage.checkpoint(state)
    assert not storage.needs_checkpoint()
    storage.close(state)
