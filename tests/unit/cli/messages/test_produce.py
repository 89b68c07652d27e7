"""Receipts of `produce`: bounded memory, and failures that end it."""

import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from spark_pulsar.cli.messages.produce import Receipts
from tests.brokers import Broker
from tests.eventually import eventually

OK = SimpleNamespace(name="Ok")
MIB = 1 << 20


def test_at_most_64_mib_wait_for_their_receipts() -> None:
    receipts = Receipts()
    callbacks = []
    for _ in range(6):
        assert receipts.wait_for_room(10 * MIB)
        callbacks.append(receipts.callback(10 * MIB))
        receipts.expect(10 * MIB)
    waited = threading.Thread(target=receipts.wait_for_room, args=(10 * MIB,), daemon=True)
    waited.start()
    waited.join(0.1)
    assert waited.is_alive()
    callbacks[0](OK, None)
    waited.join(20)
    assert not waited.is_alive()


def test_one_larger_message_may_always_be_sent() -> None:
    assert Receipts().wait_for_room(100 * MIB)


def test_nothing_is_sent_after_a_failure() -> None:
    receipts = Receipts()
    receipts.expect(1)
    receipts.callback(1)(SimpleNamespace(name="MessageTooBig"), None)
    receipts.settle()
    assert not receipts.wait_for_room(1)
    assert receipts.outcomes == {"MessageTooBig": 1}


def test_each_message_gets_its_outcome() -> None:
    """Also one whose receipt comes after the failure of a later one."""
    receipts = Receipts()
    first, second = receipts.callback(1), receipts.callback(1)
    receipts.expect(1)
    receipts.expect(1)
    second(SimpleNamespace(name="MessageTooBig"), None)
    waited = threading.Thread(target=receipts.wait_for_all, daemon=True)
    waited.start()
    waited.join(0.1)
    assert waited.is_alive()
    first(OK, None)
    waited.join(20)
    assert receipts.outcomes == {"MessageTooBig": 1, "Ok": 1}


@pytest.mark.parametrize("words", ["produce t -m x", "consume t -s s", "read t", "bench read t"])
def test_the_official_client_is_asked_for(words: str) -> None:
    program = "import sys\nsys.modules['pulsar'] = None\nfrom spark_pulsar.cli.main import app\napp(sys.argv[1:])"
    command = [sys.executable, "-c", program, *words.split(), "-u", "pulsar://127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.endswith("pip install 'spark-pulsar[cli]'\n")


def test_lines_that_come_one_by_one_are_sent_as_they_come(broker: Broker) -> None:
    topic = broker.topic()
    consumer = broker.client().subscribe(topic, "s")
    command = [sys.executable, "-m", "spark_pulsar", "produce", topic, "-u", broker.service_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as producing:
        assert producing.stdin is not None
        for line in (b"one", b"two"):
            producing.stdin.write(line + b"\n")
            producing.stdin.flush()
            assert consumer.receive(timeout_millis=20_000).data() == line
        producing.stdin.close()
        eventually(lambda: producing.poll() == 0)
