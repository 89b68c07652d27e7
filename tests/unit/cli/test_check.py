"""`spark-pulsar check`."""

import json
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import spark_pulsar
from spark_pulsar.cli.main import app
from spark_pulsar.ledger.state.topics import TopicCreated
from tests.contract.storages import FileWorld


def checked(directory: Path, *options: str, status: int) -> list[str]:
    """What `check` prints."""
    done = CliRunner().invoke(app, ["check", str(directory), *options])
    assert done.exit_code == status, done.output
    return done.stdout.splitlines()


def test_damage_before_the_end_of_the_journal_is_named_and_repaired(tmp_path: Path) -> None:
    with spark_pulsar.broker_process(tmp_path) as broker:
        for letter in "xyz":
            sent = CliRunner().invoke(app, ["produce", "t", "-m", letter * 1000, "-u", broker.service_url])
            assert sent.exit_code == 0, sent.stderr
        broker.kill()
    assert checked(tmp_path, status=0)[-1] == f"{tmp_path}: in order"
    [segment] = [each for each in (tmp_path / "journal").iterdir() if b"y" * 1000 in each.read_bytes()]
    data = bytearray(segment.read_bytes())
    data[data.find(b"y" * 1000) + 10] ^= 1
    segment.write_bytes(data)
    *lines, last = checked(tmp_path, status=1)
    rows = [line.split("\t") for line in lines]
    assert "error" in " ".join(lines)
    assert "is read-only" in " ".join(lines)
    assert f"journal/{segment.name}" in [row[1] for row in rows]
    told = json.loads("\n".join(checked(tmp_path, "-o", "json", status=1)))
    assert (told["in_order"], [list(map(str, each.values())) for each in told["findings"]]) == (False, rows)
    assert last == f"{tmp_path}: errors: 2"
    *lines, last = checked(tmp_path, "--repair", status=0)
    assert any(line.startswith("repaired: persistent://public/default/t: entries ") for line in lines)
    assert last == f"{tmp_path}: now: in order"
    for path in tmp_path.glob("checkpoint*"):
        path.unlink()
    assert "cannot be repaired" in "\n".join(checked(tmp_path, "--repair", status=1))


def test_a_directory_in_use_is_not_touched(tmp_path: Path) -> None:
    with spark_pulsar.broker_process(tmp_path):
        done = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert done.exit_code == 1
    assert "a broker (process" in " ".join(done.stdout.replace("│", " ").split())


@pytest.mark.parametrize("options", [[], ["--repair"]])
def test_no_room_to_look_in_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    world = FileWorld(tmp_path)
    world.apply_and_submit(TopicCreated(1, "persistent://public/default/t", 1, {}))
    world.checkpoint()
    world.kill()
    world.dispose()
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    done = CliRunner().invoke(app, ["check", str(world.data_dir), *options])
    assert (done.exit_code, done.exception and type(done.exception)) == (1, SystemExit)
    assert "was not checked, and nothing was changed" in done.stdout
    assert "Set TMPDIR" in done.stdout
    assert "damage" not in done.stdout
