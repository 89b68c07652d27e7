"""Every recording of Apache Pulsar 4.0.8, against the broker under test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Broker, topic_path
from tests.eventually import eventually
from tests.transcripts.replay import Recording, Replay, load

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT.parent / "shared" / "reference" / "transcripts"
FILES = sorted(RECORDINGS.glob("*.jsonl"))

# Where we differ on purpose, by line. RC-3: redelivery counts are kept with the cursor, Apache Pulsar forgets them when
# the last consumer leaves. NP-2: entries of a non-persistent topic have ids that rise, for clients that take two
# messages of the same id for one; Apache Pulsar gives all of them 0:0.
DIFFERENT = {
    "15-negative-ack": {line: {"redelivery_count": count} for line, count in ((30, 1), (31, 3), (32, 1))},
    "22-non-persistent": {
        11: {"message_id": {"ledgerId": 0, "entryId": 1}},
        12: {"message_id": {"ledgerId": 0, "entryId": 1, "partition": -1}},
        14: {"message_id": {"ledgerId": 0, "entryId": 2}},
        15: {"message_id": {"ledgerId": 0, "entryId": 2, "partition": -1}},
    },
}
# Flags of CONNECTED that our broker does not raise, because what they promise is not there (J2).
FLAGS_NOT_RAISED = frozenset({"supports_repl_dedup_by_lid_and_eid"})

# Each frame may take long on a busy machine.
TIMEOUT_S = 30.0


def _rest(broker: Broker, method: str, path: str, body: Any = None) -> Callable[[], None]:
    def call() -> None:
        status, answer = broker.rest(method, path, body)
        assert status in (200, 204, 409), f"{method} {path}: {status} {answer}"

    return call


def _interludes(broker: Broker, name: str) -> dict[int, Callable[[], None]]:
    """Calls of REST before the line of that number."""
    default = "/admin/v2/persistent/public/default"
    if name == "04-partition-metadata":
        return {1: _rest(broker, "PUT", f"{default}/gt-pm/partitions", 3)}
    if name == "27-topic-list-watch":
        delete = _rest(broker, "DELETE", "/admin/v2/persistent/public/gt-watch/b?force=true")
        return {_line_of(name, "WATCH_TOPIC_UPDATE", 2): delete}
    if name == "28-termination":
        return {_line_of(name, "CLOSE_PRODUCER", 1): _rest(broker, "POST", f"{default}/gt-term/terminate")}
    if name == "30-broker-close":
        return {_line_of(name, "CLOSE_PRODUCER", 1): _rest(broker, "PUT", f"{default}/gt-unload/unload")}
    return {}


def _line_of(name: str, type_name: str, occurrence: int) -> int:
    lines = [
        line for line in load(RECORDINGS / f"{name}.jsonl").lines if not line.sent and line.frame.type == type_name
    ]
    return lines[occurrence - 1].number


def _prepare(broker: Broker, recording: Recording) -> None:
    """A namespace with the recorded policies, none of the recorded topics, and a broker that owns their names."""
    namespaces = {tuple(topic.split("://")[1].split("/")[:2]) for topic in recording.topics} - {("public", "default")}
    for tenant, namespace in namespaces:
        _rest(broker, "PUT", f"/admin/v2/namespaces/{tenant}/{namespace}", {"bundles": {"numBundles": 1}})()
        if recording.name == "07-dedup-duplicate":
            _rest(broker, "POST", f"/admin/v2/namespaces/{tenant}/{namespace}/deduplication", True)()
    if broker.kind == "ours":
        return
    watched = [f"persistent://public/gt-watch/{name}" for name in "abz"] if "watch" in recording.name else []
    for topic in [*recording.topics, *watched]:
        for suffix in ("/partitions", ""):
            broker.rest("DELETE", f"{topic_path(topic)}{suffix}?force=true&authoritative=true")
    raw = broker.raw()
    for topic in recording.topics:
        eventually(lambda topic=topic: raw.request("LOOKUP", topic=topic)["response"] == "Connect", timeout_s=60)
    raw.close()


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_replay(broker: Broker, path: Path) -> None:
    ours = broker.kind == "ours"
    recording = load(path)
    _prepare(broker, recording)
    replay = Replay(
        recording,
        broker.unconnected,
        interludes=_interludes(broker, path.stem),
        any_split=path.stem == "09-shared",
        own_fields=DIFFERENT.get(path.stem, {}) if ours else {},
        optional_flags=FLAGS_NOT_RAISED if ours else frozenset(),
        timeout_s=TIMEOUT_S,
    )
    replay.play()


@pytest.mark.skipif(not RECORDINGS.exists(), reason="the recordings are not beside the project")
def test_every_recording_is_there() -> None:
    assert len(FILES) == 30, f"{RECORDINGS} holds {len(FILES)} recordings"


@pytest.mark.ours_only("J2: a feature flag is raised when what it promises works")
def test_flags_that_are_not_raised(broker: Broker) -> None:
    flags = broker.unconnected().connect().fields.get("feature_flags", {})
    raised = {flag for flag, value in flags.items() if value}
    assert not raised & FLAGS_NOT_RAISED, "take it off the list"
