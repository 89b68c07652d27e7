"""Checkpoints: when one is due, and rows that are prepared over many turns, so that none is held up by all of them."""

from pathlib import Path

import pytest

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors.records import CursorAcked, CursorCreated
from spark_pulsar.ledger.state.ledgers import LedgerOpened
from spark_pulsar.ledger.state.topics import TopicCreated, TopicPropertiesSet
from spark_pulsar.storage import files
from spark_pulsar.storage.files import FileStorage
from tests.contract.histories import picture
from tests.entry_runs import run_of
from tests.eventually import eventually

TOPICS = 100


def test_rows_are_taken_before_the_checkpoint_and_what_changes_meanwhile_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_ROWS_A_TURN", 8)
    storage, state = FileStorage.open(tmp_path)

    def submit(record: Record) -> None:
        apply(state, record)
        storage.submit([record], None)

    for number in range(1, TOPICS + 1):
        submit(TopicCreated(number, f"persistent://a/b/{number}", 1, {}))
    turns = 0
    while not storage.prepare_checkpoint(state):
        turns += 1
        submit(TopicPropertiesSet(turns, {"turn": str(turns)}))
    assert TOPICS // 8 <= turns <= 4 * TOPICS // 8
    assert sum(map(len, state.dirty.values())) <= 2 * 8
    storage.checkpoint(state)
    eventually(lambda: not storage.checkpointing)
    live = picture(state)
    storage.close()
    storage, state = FileStorage.open(tmp_path)
    assert picture(state) == live
    storage.close()


def test_rows_that_change_all_the_time_do_not_put_off_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_ROWS_A_TURN", 8)
    storage, state = FileStorage.open(tmp_path)
    for number in range(1, TOPICS + 1):
        record = TopicCreated(number, f"persistent://a/b/{number}", 1, {})
        apply(state, record)
        storage.submit([record], None)
    for _ in range(2 * TOPICS // 8 + 8):
        if storage.prepare_checkpoint(state):
            break
        state.dirty["topics"].update(range(1, TOPICS + 1))
    else:
        pytest.fail("it is put off for ever")
    storage.close(state)


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
