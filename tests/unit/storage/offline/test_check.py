from __future__ import annotations

from pathlib import Path

import pytest

from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.offline.check import Finding, Severity, check
from tests.contract.storages import FileWorld
from tests.entry_runs import run_of


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A killed data directory with settled and unsettled entries; ledger 1 is sealed, ledger 2 is not."""
    world = FileWorld(tmp_path)
    world.apply_and_submit(TopicCreated(1, "persistent://public/default/t", 1, {}))
    for ledger_id in (1, 2):
        world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
        for entry_id in range(30):
            world.apply_and_submit(EntriesAppended(run_of(ledger_id, entry_id, [b"x" * 4000])))
    world.checkpoint()
    world.apply_and_submit(EntriesAppended(run_of(2, 30, [b"x" * 4000])))
    world.kill()
    world.dispose()
    return Layout(world.data_dir)


def errors(layout: Layout) -> list[Finding]:
    return [finding for finding in check(layout.root) if finding.severity is Severity.ERROR]


def test_nothing_is_found_where_nothing_is_wrong(layout: Layout) -> None:
    before = {path: path.read_bytes() for path in layout.journal.iterdir()}
    assert check(layout.root) == []
    assert {path: path.read_bytes() for path in layout.journal.iterdir()} == before


@pytest.mark.parametrize("ledger_id", [1, 2])
def test_damage_in_ledger_files(layout: Layout, ledger_id: int) -> None:
    path = layout.ledger(ledger_id)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    damaged, topic = errors(layout)
    assert damaged.file == topic.file == f"ledgers/{path.name}"
    assert 0 <= damaged.offset == topic.offset <= len(data) // 2
    assert "fail their checksum" in str(damaged)
    assert "persistent://public/default/t is read-only: entries" in str(topic)


def test_a_short_or_missing_ledger_file(layout: Layout) -> None:
    path = layout.ledger(2)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    assert {(found.file, found.offset) for found in errors(layout)} == {(f"ledgers/{path.name}", len(data) - 1)}
    path.unlink()
    short, topic = errors(layout)
    assert "were durable, 0 are there" in short.text
    assert "entries 2:0 to 2:15 are lost" in topic.text


def test_a_missing_checkpoint(layout: Layout) -> None:
    for path in layout.root.glob("checkpoint*"):
        path.unlink()
    assert [finding.text for finding in errors(layout)] == ["the checkpoint is missing"]


def test_damage_in_the_journal_is_surveyed(layout: Layout) -> None:
    path = layout.segment(max(layout.segments()))
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    findings = check(layout.root)
    assert (findings[0].severity, findings[0].file) == (Severity.ERROR, f"journal/{path.name}")
    assert any("whole groups" in finding.text for finding in findings if finding.severity is Severity.INFO)


def test_leftovers_are_explained(layout: Layout) -> None:
    (layout.ledgers / "000000000099.ledger").write_bytes(b"x")
    (layout.journal / "notes.txt").write_text("x")
    with layout.ledger(2).open("ab") as file:
        file.write(b"tail")
    found = {finding.file: finding for finding in check(layout.root)}
    assert found["ledgers/000000000099.ledger"].severity is Severity.INFO
    assert found["journal/notes.txt"].severity is Severity.WARNING
    assert "never finished" in found["ledgers/000000000002.ledger"].text
