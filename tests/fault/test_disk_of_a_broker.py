"""A broker whose disk is full, forbids, or fails: producers wait, nothing receipted is lost, all goes on by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pulsar
import pytest

from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.testing.process import BrokerProcess
from tests.brokers import Broker
from tests.eventually import eventually
from tests.fault.crash_load import QUIET_CLIENT

TOPIC = "persistent://public/default/t"
BODY = b"." * 20_000
SMALL = {"journalMaxSizeMB": 1, "managedLedgerMaxEntriesPerLedger": 20, "managedLedgerMinLedgerRolloverTimeMinutes": 0}


class FaultyBroker(BrokerProcess):
    """See `faulty_broker`."""

    _module = "tests.fault.faulty_broker"


@pytest.fixture
def process(tmp_path: Path, faults: Path) -> Iterator[BrokerProcess]:
    with FaultyBroker(tmp_path / "data", SMALL) as started:
        yield started


class Publishing:
    """An official producer that remembers its receipts; one message under way at a time is enough."""

    def __init__(self, client: pulsar.Client) -> None:
        self.receipts: list[int] = []
        self.errors: list[object] = []
        self._next = 0
        self._producer = client.create_producer(TOPIC, batching_enabled=False, send_timeout_millis=0)

    def send(self, count: int) -> None:
        """Send so many more, without waiting."""
        for number in range(self._next, self._next + count):
            value = b"%d/" % number + BODY
            self._producer.send_async(value, lambda result, _, number=number: self._done(result, number))
        self._next += count

    def _done(self, result: object, number: int) -> None:
        if result == pulsar.Result.Ok:
            self.receipts.append(number)
        else:
            self.errors.append(result)


@contextmanager
def connected(process: BrokerProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(process.service_url, operation_timeout_seconds=60, logger=QUIET_CLIENT)
    try:
        yield client
    finally:
        client.close()


def stored(client: pulsar.Client) -> list[int]:
    """Every message of the topic, in order, the second of two equal ones left out."""
    numbers: list[int] = []
    with closing(client.create_reader(TOPIC, pulsar.MessageId.earliest)) as reader:
        while reader.has_message_available():
            number = int(reader.read_next(timeout_millis=30_000).data().split(b"/")[0])
            if number not in numbers:
                numbers.append(number)
    return numbers


def in_order(process: BrokerProcess) -> None:
    process.stop()
    assert [str(finding) for finding in check(process.data_dir) if finding.severity is Severity.ERROR] == []


def survive_a_full_disk(process: BrokerProcess, begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Publish into a shortage until the broker says so, read meanwhile, and see everything through when it ends."""
    with connected(process) as client:
        client.subscribe(TOPIC, "keep").close()
        publishing = Publishing(client)
        publishing.send(20)
        eventually(lambda: len(publishing.receipts) == 20)
        begin()
        publishing.send(300)
        eventually(lambda: "no space for the journal" in process.log, timeout_s=60)
        # Another producer is told; readers are served.
        broker = Broker("ours", process.service_url, process.admin_url, process)
        with closing(broker.raw()) as raw:
            raw.request("LOOKUP", topic=TOPIC)
            refused = raw.request("PRODUCER", topic=TOPIC, producer_id=1)
            assert refused.fields["error"] == "ServiceNotReady", refused
            raw.request("SUBSCRIBE", topic=TOPIC, subscription="keep", subType="Exclusive", consumer_id=1)
            answer = raw.request("SEEK", consumer_id=1, message_id={"ledgerId": 0, "entryId": 0})
            assert answer.fields.get("error", "stored") in ("ServiceNotReady", "stored"), answer
        assert stored(client)[:20] == list(range(20))
        assert len(publishing.receipts) < 320
        end()
        eventually(lambda: len(publishing.receipts) == 320, timeout_s=120)
        assert publishing.errors == []
        assert stored(client) == list(range(320))
        assert "there is space for the journal again" in process.log
        assert "Traceback" not in process.log
    in_order(process)


@pytest.mark.parametrize("fault", ["full", "forbidden"])
def test_producers_wait_while_the_disk_takes_no_more(process: BrokerProcess, faults: Path, fault: str) -> None:
    # covers DUR-10
    survive_a_full_disk(process, lambda: _write(faults, fault), lambda: _write(faults, ""))


@pytest.mark.long
def test_produce_says_why_the_broker_takes_no_messages(process: BrokerProcess, faults: Path) -> None:
    # covers DUR-10
    def produce(count: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "spark_pulsar", "produce", TOPIC, "-u", process.service_url]
        return subprocess.run([*command, "-m", "." * 20_000, "-n", str(count)], capture_output=True, text=True)

    assert produce(20).returncode == 0
    _write(faults, "full")
    for _ in range(2):  # while messages are under way, and from the start
        done = produce(300)
        assert done.returncode == 1
        assert "The broker takes no messages: [Errno 28] No space left on device" in done.stderr


def start_without_space(process: BrokerProcess, begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Kill a broker that has stored something, start it again on a full disk: it serves what needs no space."""
    with connected(process) as client:
        client.subscribe(TOPIC, "keep").close()
        publishing = Publishing(client)
        publishing.send(20)
        eventually(lambda: len(publishing.receipts) == 20)
        process.kill()
        begin()
        process.start()
        # Spare segments may be left from before; what they take is stored and receipted.
        publishing.send(300)
        eventually(lambda: "no space for the journal" in process.log, timeout_s=60)
        assert stored(client)[:20] == list(range(20))
        assert len(publishing.receipts) < 320
        broker = Broker("ours", process.service_url, process.admin_url, process)
        with closing(broker.raw()) as raw:
            raw.request("LOOKUP", topic=TOPIC)
            refused = raw.request("PRODUCER", topic=TOPIC, producer_id=1)
            assert refused.fields["error"] == "ServiceNotReady", refused
        end()
        eventually(lambda: len(publishing.receipts) == 320, timeout_s=120)
        assert publishing.errors == []
        assert stored(client) == list(range(320))
        assert "Traceback" not in process.log
    in_order(process)


def start_after_a_clean_stop(process: BrokerProcess, begin: Callable[[], None], end: Callable[[], None]) -> None:
    """The files that SQLite keeps beside a database are gone then, and there is no space for them."""
    with connected(process) as client:
        publishing = Publishing(client)
        publishing.send(20)
        eventually(lambda: len(publishing.receipts) == 20)
        assert process.stop() == 0
        begin()
        process.start()
        assert stored(client) == list(range(20))
        end()
        publishing.send(200)
        eventually(lambda: len(publishing.receipts) == 220, timeout_s=120)
        assert "Traceback" not in process.log
    in_order(process)


def test_a_broker_starts_on_a_full_disk(process: BrokerProcess, faults: Path) -> None:
    # covers DUR-10
    start_without_space(process, lambda: _write(faults, "full"), lambda: _write(faults, ""))


def _write(faults: Path, text: str) -> None:
    faults.write_text(text)


@pytest.mark.parametrize("fault", ["sync", "commit"])
def test_after_a_failed_sync_the_broker_starts_its_core_again(process: BrokerProcess, faults: Path, fault: str) -> None:
    # covers DUR-10: what was written and not synced is written again elsewhere, never synced a second time
    with connected(process) as client:
        client.subscribe(TOPIC, "keep").close()
        publishing = Publishing(client)
        publishing.send(20)
        eventually(lambda: len(publishing.receipts) == 20)
        faults.write_text(fault)
        publishing.send(300)
        eventually(lambda: len(publishing.receipts) == 320, timeout_s=120)
        eventually(lambda: "the core is back" in process.log, timeout_s=60)
        assert faults.read_text() == ""
        assert stored(client) == list(range(320))
    in_order(process)


@contextmanager
def small_file_system(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def end_of(directory: Path) -> str:
    """The last line of the log of a broker that does not start."""
    command = [sys.executable, "-m", "spark_pulsar", "broker", "--port", "0", "--http-port", "0", "--data-dir"]
    done = subprocess.run([*command, directory], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    return done.stderr.splitlines()[-1]


def test_directories_where_no_broker_can_start(tmp_path: Path) -> None:
    # covers DUR-10
    with small_file_system(tmp_path / "small", "48k") as small:
        assert "checkpoint.sqlite: SQLite says: database or disk is full. " in end_of(small / "data")
    with small_file_system(tmp_path / "read-only", "40m") as place:
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        assert end_of(place / "data").endswith("cannot be made or opened: Read-only file system")
        assert end_of(place).endswith("LOCK cannot be opened: Read-only file system")


@pytest.mark.parametrize("survive", [survive_a_full_disk, start_without_space, start_after_a_clean_stop])
def test_a_file_system_that_is_really_full(
    tmp_path: Path, survive: Callable[[BrokerProcess, Callable[[], None], Callable[[], None]], None]
) -> None:
    # covers DUR-10
    left = 40 if survive is survive_a_full_disk else 0
    with small_file_system(tmp_path / "small", "40m") as small, BrokerProcess(small / "data", SMALL) as process:
        ballast = small / "ballast"

        def begin() -> None:
            space = os.statvfs(small)
            with ballast.open("wb") as file:
                for _ in range(space.f_bavail * space.f_frsize // 4096 - left):
                    file.write(bytes(4096))

        survive(process, begin, ballast.unlink)
