"""The number at which the ledgers of a data directory begin."""

from pathlib import Path

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.server.first_ledger import first_ledger_id, number_ledgers
from spark_pulsar.storage.files import FileStorage

NOW_MS = 1_795_000_000_000


def opened(directory: Path, now_ms: int = NOW_MS) -> int:
    """Opens a directory as a broker does, closes it as a crash does, and returns the id of its next ledger."""
    storage, state = FileStorage.open(directory, segment_bytes=1 << 20)
    number_ledgers(storage, state, now_ms)
    storage.close()
    return state.next_ledger_id


def make_topic(directory: Path) -> int:
    """Makes a topic with a ledger; returns the id of that."""
    storage, state = FileStorage.open(directory, segment_bytes=1 << 20)
    records: list[Record] = [TopicCreated(state.next_topic_id, "persistent://public/default/t", 5, {})]
    apply(state, records[0])
    records += state.records_to_open_ledger(state.topics_by_name["persistent://public/default/t"].topic_id, 5)
    for record in records[1:]:
        apply(state, record)
    storage.submit(records)
    storage.close(state)
    return state.next_ledger_id - 1


def test_each_new_directory_begins_elsewhere_and_goes_on_there(tmp_path: Path) -> None:
    # covers ML-6
    first, second = opened(tmp_path / "a"), opened(tmp_path / "b", NOW_MS + 1_000)
    assert second == first + 100
    assert 10**9 < first < 2**35
    assert opened(tmp_path / "a", NOW_MS + 5_000) == first
    assert make_topic(tmp_path / "a") == first
    assert opened(tmp_path / "a", NOW_MS + 9_000) == first + 1


def test_a_directory_that_has_had_ledgers_goes_on_as_it_was(tmp_path: Path) -> None:
    # covers ML-6
    assert make_topic(tmp_path) == 1
    assert opened(tmp_path) == 2


def test_without_a_clock_the_number_is_random() -> None:
    # covers ML-6
    found = {first_ledger_id(now_ms) for now_ms in (0, 1, 1_767_225_600_000)}
    assert len(found) == 3
    assert all(0 < first < 10**9 for first in found)
