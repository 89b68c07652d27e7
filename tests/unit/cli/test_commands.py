"""The commands of `spark-pulsar`, as a user types them."""

import json
import re
import socket
import threading
import time
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from spark_pulsar.cli.main import app
from tests.brokers import Broker

EARLIEST = ("--initial-position", "earliest", "--timeout", "30")


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=stdin)


def test_version_is_that_of_the_package() -> None:
    assert run("version").stdout.strip() == version("spark-pulsar")
    assert json.loads(run("version", "-o", "json").stdout) == version("spark-pulsar")


def test_one_message_of_standard_input_comes_back(broker: Broker) -> None:
    topic = broker.topic()
    assert run("produce", topic, "-u", broker.service_url, "--file", "-", stdin="one\ntwo\n").exit_code == 0
    assert run("produce", topic, "-u", broker.service_url, "--lines", "-", stdin="three\n").exit_code == 0
    assert run("read", topic, "-u", broker.service_url, "--values-only").stdout == "one\ntwo\n\nthree\n"
    twice = run("produce", topic, "-u", broker.service_url, "--file", "-", "--lines", "-", stdin="one\n")
    assert (twice.exit_code, "standard input can be read once" in twice.stderr) == (2, True)


def test_names_that_are_none_are_one_line(broker: Broker) -> None:
    for words, said in (
        (("read", "persistent://a b"), "spark-pulsar: Invalid topic name"),
        (("produce", "a/b/c/d/e", "-m", "x"), "InvalidTopicName"),
    ):
        done = run(*words, "-u", broker.service_url)
        assert (done.exit_code, done.stderr.count("\n"), said in done.stderr) == (1, 1, True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("read t -u 127.0.0.1:6650", "want pulsar://HOST:PORT, got '127.0.0.1:6650'; try pulsar://127.0.0.1:6650"),
        ("top --admin-url localhost:8080", "want http://HOST:PORT, got 'localhost:8080'; try http://localhost:8080"),
        (
            "tokens create -s me -sk nope",
            "--secret-key: there is no such file, and as a key in base64 it has only 24 bits",
        ),
    ],
)
def test_a_mistake_is_one_line_with_advice(words: str, reason: str) -> None:
    done = run(*words.split())
    assert done.exit_code > 0
    assert (reason in done.stderr, done.stderr.count("\n")) == (True, 1)


def test_messages_with_key_and_properties(broker: Broker) -> None:
    topic = broker.topic()
    run(
        "produce",
        topic,
        "-u",
        broker.service_url,
        *["-m", "a", "-m", "b", "-k", "key", "-p", "x=1", "-p", "y==", "-n", "2"],
    )
    read = run("consume", topic, "-s", "sub", "-n", "4", "-u", broker.service_url, *EARLIEST)
    lines = [line.partition(" ")[2] for line in read.stdout.splitlines()]
    assert lines == ["[key] x=1 y== a"] * 2 + ["[key] x=1 y== b"] * 2


def test_consumed_messages_are_acknowledged(broker: Broker) -> None:
    topic = broker.topic()
    where = ("-u", broker.service_url, "--values-only")
    sent = run("produce", topic, "-u", broker.service_url, "-m", "1", "-m", "2", "-m", "3")
    assert re.fullmatch(rf"3 messages sent to {topic} in [0-9.]+ s: [0-9,]+/s\n", sent.stderr)
    first = run("consume", topic, "-s", "sub", "-n", "3", *where, *EARLIEST)
    assert first.stdout == "1\n2\n3\n"
    again = run("consume", topic, "-s", "sub", "-n", "1", *where, "--timeout", "0.5")
    assert (again.exit_code, again.stdout) == (1, "")
    assert "no message for 0.5 s" in again.stderr


@pytest.mark.parametrize("kind", ["Exclusive", "shared", "failover", "Key_Shared", "key-shared"])
def test_subscription_types_are_known_in_any_spelling(kind: str) -> None:
    refused = run("consume", "t", "-s", "sub", "--type", kind, "-u", "pulsar://127.0.0.1:1")
    assert (refused.exit_code, refused.stderr.split(":")[1]) == (1, " no broker at pulsar")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("produce", "t", "-m", "x", "-u", "pulsar://127.0.0.1:1"), 1, "no broker at pulsar://127.0.0.1:1"),
        (("produce", "t", "-m", "x", "-u", "nonsense"), 2, "try pulsar://nonsense"),
        (("produce", "t", "-m", "x", "-p", "novalue"), 2, "want NAME=VALUE"),
        (("produce", "t", "-m", "x", "-p", "=v"), 2, "want NAME=VALUE"),
        (("consume", "t", "-s", "s", "--type", "queue"), 2, "'queue' is not one of exclusive"),
        (("consume", "t", "-s", "s", "--initial-position", "middle"), 2, "'middle' is not one of latest"),
        (("consume", "t"), 2, "--subscription"),
        (("broker", "--port", "65536"), 2, "less than or equal to 65535"),
        (("broker", "--conf", "/does/not/exist"), 2, "does not exist"),
        (("check", "/does/not/exist"), 2, "does not exist"),
        (("consume", "t", "-s", ""), 2, "want a name"),
        (("admin", "--admin-url", "nonsense", "topics", "list", "a/b"), 2, "want http://HOST:PORT"),
        (("admin", "--admin-url", "pulsar://127.0.0.1:6650", "topics", "list", "a/b"), 2, "want http://HOST:PORT"),
        (("admin", "--admin-url", "http://127.0.0.1:1", "topics", "list", "a/b"), 1, "no broker listens there"),
        (("admin", "--admin-url", "http://a b", "topics", "list", "a/b"), 1, "no answer from http://a b: InvalidURL("),
        (("admin", "--admin-url", "http://127.0.0.1:x", "topics", "list", "a/b"), 1, "no answer from http://127"),
    ],
)
def test_errors_are_one_line_and_a_status(arguments: tuple[str, ...], status: int, said: str) -> None:
    done = run(*arguments)
    assert done.exit_code == status
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["tenants list", "tenants delete acme"])
def test_a_silent_peer_costs_seconds(words: str) -> None:
    begun = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        done = run("admin", "--admin-url", url, *words.split())
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert f"no answer from {url}: timed out; it accepts connections and does not answer" in done.stderr
    assert time.monotonic() - begun < 20


def test_a_server_of_something_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        greeting = threading.Thread(target=greet)
        greeting.start()
        done = run("admin", "--admin-url", f"http://127.0.0.1:{port}", "topics", "list", "a/b")
        greeting.join()
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert f"no answer from http://127.0.0.1:{port}: " in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# fine\nkeepAliveIntervalSeconds=often\n", "keepAliveIntervalSeconds=often: want a whole number from 1 to"),
        (b"# fine\n# \xff\n", "line 2: want UTF-8"),
        (b"nonsense\n", "line 1: want key=value"),
        (b"authorizationEnabled=true\n", "authorizationEnabled=true: want authenticationEnabled"),
        (b"authenticationEnabled=true\n", "authenticationEnabled=true: want authenticationProviders"),
    ],
)
def test_a_configuration_that_cannot_be_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_bytes(content)
    done = run("broker", "--conf", str(conf), "--data-dir", str(tmp_path / "data"))
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"spark-pulsar broker: {conf}: {said}")


def test_what_a_backlog_takes(broker: Broker) -> None:
    # covers ST-6, ADM-67, ADM-71
    def admin(*words: str) -> str:
        done = run("admin", "--admin-url", broker.admin_url, *words)
        assert (done.exit_code, done.stderr) == (0, ""), words
        return done.stdout

    topic = broker.topic()
    run("admin", "--admin-url", broker.admin_url, "topics", "create-subscription", topic, "-s", "s")
    run("produce", topic, "-u", broker.service_url, "-m", "a", "-m", "b")
    stats = json.loads(admin("topics", "stats", topic, "-gpb", "-sbs", "-etb"))
    assert stats["subscriptions"]["s"]["earliestMsgPublishTimeInBacklog"] > 0
    assert int(admin("topics", "get-backlog-size", topic, "-m", "earliest")) == stats["storageSize"] > 0
    assert admin("brokers", "backlog-quota-check") == "ok\n"
    admin("topicPolicies", "set-backlog-quota", topic, "-l", "2G", "-p", "producer_exception")
    quotas = admin("topicPolicies", "get-backlog-quota", topic)
    assert json.loads(quotas)["destination_storage"]["limitSize"] == 2 << 30
    assert admin("topicPolicies", "get-backlog-quotas", topic) == quotas
    admin("topics", "create-partitioned-topic", f"{topic}-parted", "-p", "2")
    assert len(json.loads(admin("topics", "partitioned-stats-internal", f"{topic}-parted"))["partitions"]) == 2


def test_a_policy_without_effect_says_so(broker: Broker) -> None:
    where, topic = ("admin", "--admin-url", broker.admin_url, "topics"), broker.topic()
    run(*where, "create", topic)
    done = run(*where, "set-persistence", topic, "-e", "1", "-w", "1", "-a", "1")
    note = "spark-pulsar: note: persistence is stored, and has no effect in this broker: "
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith(note)
    assert done.stderr.count("\n") == 1
    assert run(*where, "set-message-ttl", topic, "-t", "5").stderr == ""


def test_messages_and_statistics_in_exact_forms(broker: Broker) -> None:
    where, topic = ("admin", "--admin-url", broker.admin_url, "topics"), broker.topic()
    run(*where, "create-subscription", topic, "-s", "s")
    run("produce", topic, "-u", broker.service_url, "-m", "a", "-m", "b", "-k", "k", "-p", "x=1")
    peeked = run(*where, "peek-messages", topic, "-s", "s", "-n", "2", "-o", "json")
    assert [(each["value"], each["key"], each["properties"]) for each in json.loads(peeked.stdout)] == [
        ("a", "k", {"x": "1"}),
        ("b", "k", {"x": "1"}),
    ]
    stats = yaml.safe_load(run(*where, "stats", topic, "-o", "yaml").stdout)
    assert stats["subscriptions"]["s"]["msgBacklog"] > 0
    assert "msgInCounter\t2\n" in run(*where, "stats", topic, "-o", "text").stdout
    assert json.loads(run(*where, "subscriptions", topic, "-o", "json").stdout) == ["s"]


def test_a_wrong_port_or_scheme_says_what_to_try(broker: Broker) -> None:
    for url, said in (
        (
            broker.service_url.replace("pulsar:", "http:"),
            "is it the admin API's port, and one without TLS? It is usually",
        ),
        (broker.admin_url.replace("http:", "https:"), "port of TLS? Without it the address begins with http://"),
    ):
        done = run("admin", "--admin-url", url, "tenants", "list")
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert said in done.stderr
