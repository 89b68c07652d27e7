"""`spark-pulsar produce`, `consume` and `read`, as a user types them, against either broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pulsar
import pytest
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String
from typer.testing import CliRunner, Result

from spark_pulsar.cli.bounds import now_ms
from spark_pulsar.cli.main import app
from tests.brokers import Broker
from tests.eventually import eventually


class Order(Record):
    """A record of the tests."""

    number = Integer()
    name = String()


def run(broker: Broker, *words: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, [words[0], "-u", broker.service_url, *words[1:]], input=stdin)


def produced(broker: Broker, topic: str, *words: str, stdin: bytes | None = None) -> None:
    done = run(broker, "produce", topic, *words, stdin=stdin)
    assert done.exit_code == 0, done.stderr


def values(broker: Broker, *words: str) -> list[str]:
    done = run(broker, "read", *words, "--values-only")
    assert done.exit_code == 0, done.stderr
    return done.stdout.splitlines()


def subscriptions(broker: Broker, topic: str) -> list[str]:
    path = topic.replace("://", "/")
    return list(broker.rest("GET", f"/admin/v2/{path}/subscriptions")[1])


def test_a_read_ends_at_the_end_and_leaves_no_subscription(broker: Broker, topic: str) -> None:
    produced(broker, topic, stdin=b"one\ntwo\nthree\n")
    done = run(broker, "read", topic, "--values-only")
    assert (done.exit_code, done.stdout) == (0, "one\ntwo\nthree\n")
    assert done.stderr == f"3 messages read from {topic}\n"
    assert subscriptions(broker, topic) == []
    assert values(broker, topic, "--from", "latest") == []
    assert values(broker, topic, "-n", "2") == ["one", "two"]


def test_bounds_are_ids_of_messages_inside_batches_too(broker: Broker, topic: str) -> None:
    produced(broker, topic, stdin=b"".join(b"%d\n" % number for number in range(9)))
    ids = [line.split()[0] for line in run(broker, "read", topic).stdout.splitlines()]
    assert len(set(ids)) == 9
    for first, last in ((0, 8), (3, 5), (8, 8), (0, 0)):
        wanted = [str(number) for number in range(first, last + 1)]
        assert values(broker, topic, "--from", ids[first], "--until", ids[last]) == wanted


def test_bounds_are_publish_times(broker: Broker, client: pulsar.Client) -> None:
    topic = broker.topic(partitions=2)
    producer = client.create_producer(topic)
    for number in range(3):
        producer.send(b"early%d" % number)
    middle_ms = now_ms() + 1
    eventually(lambda: now_ms() > middle_ms)  # the broker is on this machine
    producer.send(b"late")
    early = ["early0", "early1", "early2"]
    assert values(broker, topic, "--until", str(middle_ms)) == early  # in order, across partitions
    assert values(broker, topic, "--from", str(middle_ms)) == ["late"]
    assert values(broker, topic, "--from", "-1h") == [*early, "late"]
    refused = run(broker, "read", topic, "--from", "1:0")
    assert (refused.exit_code, "a message id is one of a partition" in refused.stderr) == (2, True)


def test_large_messages_in_chunks_and_partitions_without_any(broker: Broker, client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, chunking_enabled=True)
    big = "x" * (6 << 20)
    for value in ("before", big, "after", big):
        producer.send(value.encode())
    assert values(broker, topic) == ["before", big, "after", big]
    empty = broker.topic(partitions=3)
    assert values(broker, empty) == []
    client.create_producer(f"{empty}-partition-1").send(b"alone")
    assert values(broker, empty) == ["alone"]


def test_following_prints_what_comes_and_ends_at_ctrl_c_with_the_count(broker: Broker, topic: str) -> None:
    produced(broker, topic, "-m", "there")
    command = [sys.executable, "-m", "spark_pulsar", "read", topic, "--follow", "--values-only"]
    reading = subprocess.Popen(
        [*command, "-u", broker.service_url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a suite in the background ignores it
    )
    assert reading.stdout is not None
    assert reading.stdout.readline() == "there\n"
    produced(broker, topic, "-m", "new")
    assert reading.stdout.readline() == "new\n"
    reading.send_signal(signal.SIGINT)
    _, said = reading.communicate(timeout=20)
    assert (reading.returncode, said) == (0, f"2 messages read from {topic}\n")


def test_a_topic_that_keeps_nothing_is_followed(broker: Broker) -> None:
    topic = broker.topic().replace("persistent://", "non-persistent://")
    refused = run(broker, "read", topic)
    assert (refused.exit_code, "read it with --from latest --follow" in refused.stderr) == (2, True)
    producer = broker.client().create_producer(topic)
    command = [sys.executable, "-m", "spark_pulsar", "read", topic, "--from", "latest", "--follow", "-n", "1"]
    with subprocess.Popen([*command, "-u", broker.service_url], stdout=subprocess.PIPE, text=True) as reading:

        def is_read() -> bool:
            producer.send(b"there")
            return reading.poll() is not None

        eventually(is_read, every_s=0.1)
        assert reading.returncode == 0
        assert reading.stdout is not None
        assert reading.stdout.read().endswith(" there\n")


def test_a_reader_of_the_output_that_goes_away_ends_it_without_a_word(broker: Broker, topic: str) -> None:
    produced(broker, topic, "-m", "x" * 1000, "-n", "300")
    command = f"{sys.executable} -m spark_pulsar read {topic} -u {broker.service_url} --values-only | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("x" * 1000 + "\n", "")


def test_json_lines_of_one_topic_are_those_of_another(broker: Broker, tmp_path: Path) -> None:
    first, second = broker.topic(), broker.topic()
    path = tmp_path / "lines"
    lines = [
        {"value": "text", "key": "k", "properties": {"a": "1"}, "event_time_ms": 5},
        {"value_base64": "/wAK", "ordering_key": "o"},
        {"value": None, "key": "gone"},
        {"value": {"n": 1}},
        {"value": ""},
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    produced(broker, first, "--lines", str(path), "--json-lines", "-k", "default", "-p", "b=2")
    printed = run(broker, "read", first, "--format", "json").stdout
    records = [json.loads(line) for line in printed.splitlines()]
    assert [record["key"] for record in records] == ["k", "default", "gone", "default", "default"]
    assert [record["value"] for record in records] == ["text", None, None, '{"n":1}', ""]
    assert [record.get("value_base64") for record in records] == [None, "/wAK", None, None, None]
    assert records[0]["properties"] == {"a": "1", "b": "2"}
    assert (records[0]["event_time_ms"], records[1]["ordering_key"]) == (5, "o")
    produced(broker, second, "--json-lines", stdin=printed.encode())
    again = [json.loads(line) for line in run(broker, "read", second, "--format", "json").stdout.splitlines()]
    of_the_broker = ("topic", "id", "publish_time_ms", "producer")
    assert [{**record, **dict.fromkeys(of_the_broker)} for record in again] == [
        {**record, **dict.fromkeys(of_the_broker)} for record in records
    ]


def test_files_are_messages_byte_by_byte_and_lines_end_at_the_separator(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"\x00\xff\n")
    (tmp_path / "b").write_bytes(b"")
    produced(broker, topic, "--file", str(tmp_path / "a"), "--file", str(tmp_path / "b"), "--compression", "zstd")
    assert values(broker, topic, "--format", "hex") == ["00ff0a", ""]
    topic = broker.topic()
    produced(broker, topic, "--separator", r"\0", stdin=b"a\nb\0\xfe\0")
    assert values(broker, topic, "--format", "hex") == ["610a62", "fe"]


def test_payloads_are_decoded_by_the_schema_of_the_topic(broker: Broker, client: pulsar.Client) -> None:
    for schema, name in ((AvroSchema(Order), "AVRO"), (JsonSchema(Order), "JSON")):
        topic = broker.topic()
        client.create_producer(topic, schema=schema).send(Order(number=7, name="seven"))
        record = json.loads(run(broker, "read", topic, "--format", "json").stdout)
        assert (record["schema"], record["value"]) == (name, {"number": 7, "name": "seven"})
        assert record["value_base64"]
    topic = broker.topic()
    client.create_producer(topic, schema=AvroSchema(Order)).send(Order(number=7, name="seven"))
    shown = run(broker, "consume", topic, "-s", "s", "--initial-position", "earliest", "-n", "1", "--values-only")
    assert shown.stdout == '{"number": 7, "name": "seven"}\n'


def test_values_are_encoded_by_the_schema_of_the_topic(broker: Broker, client: pulsar.Client) -> None:
    for schema in (AvroSchema(Order), JsonSchema(Order)):
        topic = broker.topic()
        client.create_producer(topic, schema=schema).send(Order(number=1, name="one"))
        printed = run(broker, "read", topic, "--format", "json").stdout
        line = json.dumps({"value": {"number": 2, "name": "two"}})
        produced(broker, topic, "--schema", "--json-lines", stdin=printed.encode() + line.encode())
        produced(broker, topic, "--schema", "-m", '{"number": 3, "name": "three"}')
        reader = client.create_reader(topic, pulsar.MessageId.earliest, schema=schema)
        received = [reader.read_next(timeout_millis=20_000) for _ in range(4)]
        assert [message.value().number for message in received] == [1, 1, 2, 3]
        assert {message.schema_version() for message in received} == {received[0].schema_version()}
        refused = run(broker, "produce", topic, "--schema", "-m", "nonsense")
        assert (refused.exit_code, "message 1: the " in refused.stderr) == (1, True)
    refused = run(broker, "produce", broker.topic(), "--schema", "-m", "x")
    assert (refused.exit_code, "has no schema: --schema encodes by AVRO" in refused.stderr) == (1, True)


def test_a_delayed_message_comes_later(broker: Broker, topic: str) -> None:
    consumer = broker.client().subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    produced(broker, topic, "-m", "later", "--delay", "2s")
    with pytest.raises(pulsar.Timeout):
        consumer.receive(timeout_millis=200)
    assert consumer.receive(timeout_millis=20_000).data() == b"later"


def test_what_is_refused_is_status_1_with_its_reason(broker: Broker, topic: str) -> None:
    done = run(broker, "produce", topic, "-m", "fits", "-m", "x" * (6 << 20))
    assert (done.exit_code, "TooBig" in done.stderr) == (1, True)
    assert f"1 messages sent to {topic}" in done.stderr
    topic = broker.topic()
    done = run(broker, "read", topic)
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert topic not in broker.rest("GET", "/admin/v2/persistent/public/default")[1]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--from", "middle"), 2, "want earliest, latest, a message id"),
        (("--until", "earliest"), 2, "want latest, a message id"),
    ],
)
def test_bounds_that_are_none(broker: Broker, words: tuple[str, ...], status: int, said: str) -> None:
    done = run(broker, "read", "t", *words)
    assert (done.exit_code, said in done.stderr) == (status, True)


def test_a_template_prints_parts_of_messages(broker: Broker, topic: str) -> None:
    # covers ADM-77
    line = b'{"value":"one","key":"k1","properties":{"a":"1","b":"2"},"event_time_ms":1500}\n{"value_base64":"/w=="}\n'
    produced(broker, topic, "--json-lines", stdin=line)
    for template, printed in (
        (r"%k %v\n", b"k1 one\n \xef\xbf\xbd\n"),
        (r"%k{hex}|%v{base64}|%K|%V;", b"6b31|b25l|2|3;|/w==|0|1;"),
        (r"%h %H %h{json}\0", b'a=1 b=2 2 {"a": "1", "b": "2"}\x00 0 {}\x00'),
        (r"%e %e{s} %e{iso}\t100%%\x1f", b"1500 1 1970-01-01T00:00:01.500Z\t100%\x1f0 0 \t100%\x1f"),
        (r"%t %r %p\n", f"{topic} 0 -1\n{topic} 0 -1\n".encode()),
    ):
        assert run(broker, "read", topic, "-f", template).stdout_bytes == printed, template
    records = [json.loads(text) for text in run(broker, "read", topic, "-f", "json").stdout.splitlines()]
    shown = run(broker, "consume", topic, "-s", "s", "-n", "2", "--initial-position", "earliest", "-f", r"%o %d %x\n")
    assert shown.stdout.splitlines() == [f"{one['id']} {one['publish_time_ms']} {one['producer']}" for one in records]


def test_a_template_reads_lines(broker: Broker, topic: str) -> None:
    # covers ADM-77
    produced(broker, topic, "-f", r"%k %v\n", stdin=b"k1 one and more\n two\n")
    produced(broker, topic, "-f", "%e;%v", "-k", "k3", stdin=b"1500;three;3\n")
    assert run(broker, "read", topic, "-f", r"%k|%v|%e\n").stdout == "k1|one and more|0\n|two|0\nk3|three;3|1500\n"
    done = run(broker, "produce", topic, "-f", "%k %v", stdin=b"k1 one\nnone\n")
    assert (done.exit_code, "standard input, line 2: not of the form of --format" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("read", "t", "-f", "%q"), "%q is no verb: verbs are %t topic, "),
        (("read", "t", "-f", "%v{hax}"), "%v{hax} is none of %v, %v{hex}, %v{base64}"),
        (("read", "t", "-f", "100%"), "% begins a verb, and is written %% itself"),
        (("read", "t", "-f", r"%v\q"), r"\q is none of \n \t \r \0"),
        (("read", "t", "-f", "yaml"), "want text, json, hex, or a template such as '%k %v"),
        (("read", "t", "-f", "%v", "--values-only"), "%v is the value"),
        (("produce", "t", "-f", "%k %t"), "a line is read by %k key, %v value, %e"),
        (("produce", "t", "-f", "%v", "-m", "x"), "a template is one of plain lines"),
    ],
)
def test_mistakes_of_a_template_are_one_line(broker: Broker, words: tuple[str, ...], said: str) -> None:
    # covers ADM-77
    done = run(broker, *words)
    assert (done.exit_code, done.stdout, done.stderr.count("\n"), said in done.stderr) == (2, "", 1, True), done.stderr
