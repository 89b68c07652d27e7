"""A broker as a child process, with and without the libraries that make it faster."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pulsar
import pytest

import spark_pulsar
from spark_pulsar.testing.process import BrokerDidNotStart, BrokerProcess
from tests.eventually import eventually


def accepts(service_url: str) -> bool:
    parts = urlsplit(service_url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory for temporary files of this test alone: other tests make theirs at the same time."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_ready_when_the_block_begins_and_gone_after_it() -> None:
    with spark_pulsar.broker_process() as broker:
        pid, data_dir = broker.pid, broker.data_dir
        assert accepts(broker.service_url)
        assert urllib.request.urlopen(f"{broker.admin_url}/admin/v2/brokers/health", timeout=60).status == 200
        assert data_dir.is_dir()
    assert not is_alive(pid)
    assert not data_dir.exists()
    assert not data_dir.parent.exists()
    assert not accepts(broker.service_url)


def test_ends_and_starts(tmp_path: Path) -> None:
    with spark_pulsar.broker_process(tmp_path / "data") as broker:
        before = (broker.service_url, broker.admin_url, broker.data_dir)
        assert broker.data_dir == tmp_path / "data"
        first = broker.pid
        with pytest.raises(RuntimeError, match="running"):
            broker.start()
        broker.restart()  # of a living one, which ends in order
        assert broker.pid != first
        second = broker.pid
        broker.kill()
        assert not is_alive(second)
        assert not accepts(broker.service_url)
        broker.restart()  # of a killed one
        assert (broker.service_url, broker.admin_url, broker.data_dir) == before
        assert accepts(broker.service_url)
        os.kill(broker.pid, signal.SIGKILL)
        eventually(lambda: not broker.is_running)
        broker.start()  # of one that died by itself
        assert accepts(broker.service_url)
        assert broker.stop() == 0
        assert broker.stop() == 0
        with pytest.raises(RuntimeError, match="not running"):
            _ = broker.pid
    assert list((tmp_path / "data").iterdir()), "a given directory is kept"


def test_the_log_tells_why_it_did_not_start(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("maxMessageSize=x\n")
    with (
        pytest.raises(BrokerDidNotStart, match=r"(?s)ended with status 1\n.*maxMessageSize=x"),
        spark_pulsar.broker_process(conf=conf),
    ):
        pytest.fail("not reached")


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"maxMesageSize": 1}, "unknown key 'maxMesageSize': did you mean maxMessageSize?"),
        ({"functionWorkerEnabled": True}, "did you mean functionsWorkerEnabled?"),
        ({"qqqqq": 1}, "unknown key 'qqqqq'; docs/broker-configuration.md lists the keys"),
        ({"maxMessageSize": "x"}, "maxMessageSize=x: want a whole number from 1 to"),
        ({"authenticationProviders": ["token"]}, "Providers: want text, a number, True or False, got list"),
        ({"clusterName": "a\nauthenticationEnabled=false"}, "want one line"),
        ({"tokenSecretKey": "a\nb"}, "tokenSecretKey='*****': want one line"),
        ({"authorizationEnabled": True}, "want authenticationEnabled=true too"),
    ],
)
def test_a_mistake_in_conf_is_told_before_a_process_starts(
    conf: dict[str, object], said: str, temporary_files: Path
) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        BrokerProcess(conf=conf)
    assert not list(temporary_files.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"data_dir": {"maxMessageSize": 5}}, "data_dir is {'maxMessageSize': 5}: give a directory"),
        ({"data_dir": ""}, "data_dir is '': give a directory, or None for a temporary one"),
        ({"data_dir": __file__}, f"data_dir {__file__} is a file: give a directory"),
        ({"conf": ["a=b"]}, "conf is ['a=b']: give a dictionary of keys and values, or the path of a broker.conf"),
        ({"conf": "maxMessageSize=5"}, "there is no such file; keys are given as a dictionary: conf={'maxMessageSize'"),
        ({"conf": Path("/no/such"), "token": True}, "conf /no/such: there is no such file"),
        ({"conf": {5: "a"}}, "5 is no key: give texts"),
        ({"conf": {"dataDirectory": "/data"}}, "dataDirectory is not for conf: the argument data_dir names"),
        ({"port": "6650"}, "port is '6650': give a number from 1 to 65535, 0 for a free one, or None"),
        ({"http_port": 70_000}, "http_port is 70000: give a number"),
        ({"host": None}, "host is None: give a name or an address"),
        ({"token": "secret"}, "token is of type str: give True or False"),
    ],
)
def test_arguments_are_checked_before_a_process_starts(
    arguments: dict[str, Any], said: str, temporary_files: Path
) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        BrokerProcess(**arguments)
    assert not list(temporary_files.iterdir())


def test_arguments_that_there_are_not() -> None:
    with pytest.raises(TypeError, match=r"BrokerProcess\(\) has no argument datadir: did you mean data_dir\?"):
        BrokerProcess(datadir="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r'broker_process\(\) has no argument maxMessageSize: give conf=\{"maxMess'):
        spark_pulsar.broker_process(maxMessageSize=5)  # type: ignore[call-arg]


def test_two_at_once_share_neither_ports_nor_a_directory() -> None:
    with spark_pulsar.broker_process() as one:
        with spark_pulsar.broker_process() as two:
            assert len({one.service_url, one.admin_url, two.service_url, two.admin_url}) == 4
        port = urlsplit(one.service_url).port or 0
        taken = f"cannot start: cannot listen at 127.0.0.1, port {port}: Address already in use"
        with pytest.raises(BrokerDidNotStart, match=taken), spark_pulsar.broker_process(port=port):
            pytest.fail("not reached")
        used = "uses this data directory"
        with pytest.raises(BrokerDidNotStart, match=used), spark_pulsar.broker_process(one.data_dir):
            pytest.fail("not reached")
        assert accepts(one.service_url)


def test_conf_reaches_the_broker(tmp_path: Path) -> None:
    keys = {"functionsWorkerEnabled": True, "allowAutoTopicCreation": False}
    with spark_pulsar.broker_process(conf=keys) as broker:
        assert "functionsWorkerEnabled has no effect" in broker.log
        assert "allowAutoTopicCreation" not in broker.log
    conf = tmp_path / "broker.conf"
    conf.write_text("functionsWorkerEnabled=true\nnumIOThreads=4\ndefaultRetentionSizeInMB=100\nclusterNam=a\n")
    with spark_pulsar.broker_process(conf=conf) as broker:
        assert "functionsWorkerEnabled, numIOThreads have no effect" in broker.log
        assert "unknown key clusterNam, ignored: did you mean clusterName?" in broker.log
        assert "only one is 0, so that nothing is retained" in broker.log  # covers RET-2


def test_the_name_of_a_broker_is_where_it_is_and_how_it_is() -> None:
    with spark_pulsar.broker_process() as broker:
        urls, place = f"{broker.service_url} {broker.admin_url}", f"data={broker.data_dir}>"
        assert repr(broker) == f"<BrokerProcess running (pid {broker.pid}) {urls} {place}"
        assert f"<td>{broker.service_url}</td>" in broker._repr_html_()
        assert f'<td><a href="{broker.admin_url}">{broker.admin_url}</a></td>' in broker._repr_html_()
        os.kill(broker.pid, signal.SIGKILL)
        eventually(lambda: repr(broker) == f"<BrokerProcess ended with status -9 {urls} {place}")
        broker.kill()
        assert repr(broker) == f"<BrokerProcess stopped {urls} {place}"
    assert repr(broker) == f"<BrokerProcess closed {urls} {place}"
    never = BrokerProcess()
    assert repr(never) == f"<BrokerProcess not started data={never.data_dir}>"
    never.close()


def test_clients_that_are_open_are_closed_with_the_broker() -> None:
    with spark_pulsar.broker_process() as broker:
        client, closed = broker.client(), broker.client(operation_timeout_seconds=5)
        client.create_producer("numbers").send(b"1")
        closed.close()
    with pytest.raises(pulsar.AlreadyClosed):
        client.create_producer("numbers")


PARENT = """
import sys, time
import spark_pulsar
with spark_pulsar.broker_process(sys.argv[1]) as broker:
    print(broker.pid, flush=True)
    sys.stdin.read()
"""


def test_the_broker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    eventually(lambda: not is_alive(pid))


def test_a_closed_broker_says_so() -> None:
    broker = BrokerProcess().start()
    assert broker.is_running
    broker.close()
    for call in (broker.client, broker.admin, broker.start, lambda: broker.spark_options):
        with pytest.raises(RuntimeError, match="the broker is closed, and its files are removed: make another one"):
            call()


def test_a_broker_that_does_not_run_takes_no_messages() -> None:
    with spark_pulsar.broker_process() as broker:
        for topic, rows, said in (
            (5, ["a"], "topic is 5: give a name"),
            ("a/b", ["a"], "Invalid topic name: a/b"),
            ("t", [1, 2], "row 1 is 1: give texts alone, or dictionaries alone"),
        ):
            with pytest.raises(ValueError, match=said):
                broker.seed(topic, rows)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="messages for public/none/t: refused: TopicNotFound"):
            broker.seed("public/none/t", ["a"])
        with pytest.raises(ValueError, match="role is 5: give the name of one"):
            broker.client(5)  # type: ignore[arg-type]
        assert broker.seed("t", (text for text in ("a", "b"))) == 2
        broker.stop()
        with pytest.raises(RuntimeError, match=r"the broker is not running: start\(\) it first"):
            broker.seed("t", ["a"])


def test_close_without_start_leaves_nothing() -> None:
    broker = BrokerProcess()
    scratch = broker.data_dir.parent
    assert scratch.exists()
    broker.close()
    assert not scratch.exists()


TOPICS = 24
ROUNDS = 40


class LightBroker(BrokerProcess):
    """A broker without the libraries that make it faster."""

    _module = "tests.broker_without_extras"


def publish_in_turn(url: str, text: str) -> None:
    """Sends to many topics in turn: a broker with NumPy stores that by column."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producers = [client.create_producer(f"turn-{at}", batching_enabled=False) for at in range(TOPICS)]
    for number in range(ROUNDS):
        for producer in producers:
            producer.send_async(f"{text}{number}".encode(), None)
    for producer in producers:
        producer.flush()
    client.close()


def contents(url: str) -> list[list[str]]:
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    found: list[list[str]] = []
    for at in range(TOPICS):
        reader = client.create_reader(f"turn-{at}", pulsar.MessageId.earliest)
        found.append([])
        while reader.has_message_available():
            found[-1].append(reader.read_next(10_000).data().decode())
    client.close()
    return found


KINDS: list[tuple[type[BrokerProcess], str]] = [(BrokerProcess, "a"), (LightBroker, "b"), (BrokerProcess, "c")]


def test_data_goes_from_one_to_the_other_and_back(tmp_path: Path) -> None:
    conf = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}
    expected: list[str] = []
    for kind, text in KINDS:
        broker = kind(tmp_path / "data", conf)
        try:
            broker.start()
            if expected:
                assert contents(broker.service_url) == [expected] * TOPICS
            publish_in_turn(broker.service_url, text)
            expected += [f"{text}{number}" for number in range(ROUNDS)]
            assert contents(broker.service_url) == [expected] * TOPICS
            assert ("serves without uvloop and numpy; faster with: pip install" in broker.log) == (kind is LightBroker)
            broker.kill()
        finally:
            broker.close()
