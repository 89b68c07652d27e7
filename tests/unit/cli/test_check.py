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


def filled(directory: Path) -> None:
    with spark_pulsar.broker_process(directory) as broker:
        for letter in "xyz":
            sent = CliRunner().invoke(app, ["produce", "t", "-m", letter * 1000, "-u", broker.service_url])
            assert sent.exit_code == 0, sent.stderr
        broker.kill()


def test_a_directory_in_order(tmp_path: Path) -> None:
    filled(tmp_path)
    done = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, f"{tmp_path}: in order")


def test_damage_before_the_end_of_the_journal_is_named(tmp_path: Path) -> None:
    filled(tmp_path)
    for segment in (tmp_path / "journal").iterdir():
        data = bytearray(segment.read_bytes())
        place = data.find(b"y" * 1000)
        if place >= 0:
            data[place + 10] ^= 1
            segment.write_bytes(data)
            break
    done = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert done.exit_code == 1
    assert "error" in done.stdout
    assert "is read-only" in " ".join(done.stdout.split())
    rows = [line.split("\t") for line in done.stdout.splitlines()[:-1]]
    assert f"journal/{segment.name}" in [row[1] for row in rows]
    told = json.loads(CliRunner().invoke(app, ["check", str(tmp_path), "-o", "json"]).stdout)
    assert (told["in_order"], [list(map(str, each.values())) for each in told["findings"]]) == (False, rows)
    assert done.stdout.splitlines()[-1] == f"{tmp_path}: errors: 2"
    done = CliRunner().invoke(app, ["check", str(tmp_path), "--repair"])
    assert done.exit_code == 0
    assert any(
        line.startswith("repaired: persistent://public/default/t: entries ") for line in done.stdout.splitlines()
    )
    assert done.stdout.splitlines()[-1] == f"{tmp_path}: now: in order"


def test_what_cannot_be_repaired_says_so(tmp_path: Path) -> None:
    filled(tmp_path)
    for path in tmp_path.glob("checkpoint*"):
        path.unlink()
    done = CliRunner().invoke(app, ["check", str(tmp_path), "--repair"])
    assert done.exit_code == 1
    assert "cannot be repaired" in done.stdout


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
