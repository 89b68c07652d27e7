"""Data directories that an earlier version wrote open, and everything in them is as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pulsar
import pytest

from spark_pulsar.storage.offline.check import check
from tests.brokers import topic_path
from tests.conftest import started
from tests.stored.making import CONF, HERE, KINDS, facts_of, name, unpack

ARCHIVES = sorted(HERE.glob("*.tar.xz"))


def left_out(stored: Any, found: Any, path: str = "") -> list[str]:
    """Finds the first member that is not in the second, which may have more members."""
    if isinstance(stored, dict) and isinstance(found, dict):
        return [each for key in stored for each in left_out(stored[key], found.get(key), f"{path}/{key}")]
    return [] if stored == found else [f"{path}: {found!r}, not {stored!r}"]


@pytest.fixture(params=ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.xz"))
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path: Path = request.param
    unpack(path, tmp_path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_everything_that_was_stored_is_there(archive: Path, tmp_path: Path, kind: str) -> None:
    # covers DUR-7
    stored = json.loads(archive.with_name(archive.name.replace(".tar.xz", ".json")).read_text())[kind]
    directory = tmp_path / kind
    assert check(directory) == []
    assert left_out(stored, facts_of(directory, checkpoint=True)) == []
    assert check(directory) == []  # as this version stores it
    assert left_out(stored, facts_of(directory)) == []


def test_a_broker_goes_on_with_it(archive: Path, tmp_path: Path) -> None:
    with started("ours", tmp_path / "killed", CONF) as broker:
        client = broker.client()
        consumer = client.subscribe(name("holes"), "s", pulsar.ConsumerType.Shared, batch_index_ack_enabled=True)
        gone = {0, 3, 10, 11, 12, 13, 14, 21, 22, 30, 31, 32, 33, 34}
        wanted = [b"%d" % number for number in range(40) if number not in gone]
        messages = [consumer.receive(60_000) for _ in wanted]
        assert sorted(message.data() for message in messages) == sorted(wanted)
        assert {message.redelivery_count() for message in messages if message.data() == b"15"} == {1}
        producer = client.create_producer(name("deduplicated"), producer_name="p")
        assert producer.last_sequence_id() == 9
        with pytest.raises(pulsar.TopicTerminated):
            client.create_producer(name("terminated"))
        client.create_producer(name("settled")).send(b"goes on")
        internal = broker.rest("GET", f"{topic_path(name('settled'))}/internalStats")[1]
        assert internal["numberOfEntries"] == 352
        assert broker.rest("GET", f"{topic_path(name('types'))}/maxProducers")[1] == 9
        broker.close_since(0)


def test_there_is_something_to_open() -> None:
    assert ARCHIVES
