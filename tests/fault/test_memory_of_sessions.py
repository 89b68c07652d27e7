"""A broker process after thousands of sessions: its memory is what it was. `make soak` plays them for longer."""

from __future__ import annotations

import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from spark_pulsar.testing.process import BrokerProcess
from tests.raw import PROTOCOL_VERSION, RawConnection, command_bytes, entry_bytes, frame_bytes

WARM_UP, SESSIONS = 400, 900
MOST_GROWN_BYTES = 600
"""Growth of resident memory for each session, where malloc's own is 100. A session that is kept takes 3,000, an HTTP
connection that waits for the collector of cycles, for each fifth one, 1,500."""
KINDS = ("Exclusive", "Shared", "Failover", "Key_Shared")
CONF = {"managedLedgerCacheSizeMB": 0, "journalMaxSizeMB": 1}
METADATA = {"producer_name": "p", "sequence_id": 0, "publish_time": 1, "partition_key": "k"}


@pytest.mark.long
def test_sessions_subscriptions_and_topics_that_are_gone_take_no_memory(tmp_path: Path) -> None:
    # covers A6
    with BrokerProcess(tmp_path / "data", CONF) as process, ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda number: session(process, number), range(WARM_UP)))
        before = resident_bytes(process.pid)
        list(pool.map(lambda number: session(process, number), range(WARM_UP, WARM_UP + SESSIONS)))
        assert resident_bytes(process.pid) - before < MOST_GROWN_BYTES * SESSIONS


def session(process: BrokerProcess, number: int) -> None:
    """Plays a session with a producer, a message, a subscription of its own, and at times a topic of its own."""
    url = urlsplit(process.service_url)
    is_own_topic = number % 5 == 0
    name = f"own-{number}" if is_own_topic else f"t-{number % 3}"
    topic = f"persistent://public/default/{name}"
    raw = RawConnection(url.hostname or "", url.port or 0)
    hello = {"client_version": "raw", "protocol_version": PROTOCOL_VERSION, "auth_method_name": "none"}
    raw.send_bytes(frame("CONNECT", **hello) + frame("PRODUCER", request_id=1, topic=topic, producer_id=1))
    raw.answer(1)
    message = frame_bytes(command_bytes("SEND", {"producer_id": 1, "sequence_id": 0}), entry_bytes(METADATA, b"x"))
    fields = {"subscription": f"s{number}", "subType": KINDS[number % 4], "consumer_id": 1}
    raw.send_bytes(message + frame("SUBSCRIBE", request_id=2, topic=topic, **fields))
    assert raw.answer(2).type == "SUCCESS"
    raw.send_bytes(frame("FLOW", consumer_id=1, messagePermits=10) + frame("UNSUBSCRIBE", request_id=3, consumer_id=1))
    assert raw.answer(3).type == "SUCCESS"
    raw.close()
    if is_own_topic:
        path = f"{process.admin_url}/admin/v2/persistent/public/default/{name}?force=true"
        urllib.request.urlopen(urllib.request.Request(path, method="DELETE"), timeout=30).close()


def frame(type_name: str, **fields: object) -> bytes:
    """Returns the frame of a command."""
    return frame_bytes(command_bytes(type_name, fields))


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024
