"""Control characters in names, keys, properties and payloads, which brokers take: commands print them as escapes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress

import pulsar
from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from tests.brokers import Broker
from tests.unit.cli.output.test_hostile_text import CONTROL

HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x9b2J\x85\u202edaer\u2066\x7f\rend"
SHOWN = r"\u001b]0;owned\u0007\u001b[31mred\u009b2J\u0085\u202edaer\u2066\u007f\u000dend"


def run(*words: str) -> str:
    done = CliRunner().invoke(app, [*words])
    for text in (done.stdout, done.stderr):
        assert CONTROL.search(text) is None, (words, text)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def on_a_terminal(*words: str) -> str:
    """Output of a command on a terminal, which the command sees as one."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "spark_pulsar", *words], stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"}
    )
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # Linux, once the other side is closed
        while part := os.read(ours, 1 << 16):
            seen += part
    os.close(ours)
    assert process.wait(30) == 0, seen
    return seen.decode().replace("\r\n", "\n")


def test_hostile_messages_and_names(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers SEC-86
    client.subscribe(topic, f"sub-{HOSTILE}").close()
    producer = client.create_producer(topic, producer_name=f"name-{HOSTILE}-{topic}")
    producer.send(HOSTILE.encode(), {f"p-{HOSTILE}": f"v\n{HOSTILE}"}, partition_key=f"k\n{HOSTILE}")
    url, admin = ("-u", broker.service_url), ("--admin-url", broker.admin_url)

    line = f"[k\\u000a{SHOWN}] p-{SHOWN}=v\\u000a{SHOWN} {SHOWN}\n"
    assert run("read", topic, *url).endswith(line)
    assert on_a_terminal("read", topic, *url).splitlines()[0].endswith(line.strip())
    record = json.loads(run("read", topic, *url, "--format", "json"))
    assert (record["key"], record["properties"]) == (f"k\n{HOSTILE}", {f"p-{HOSTILE}": f"v\n{HOSTILE}"})
    assert record["value"] == HOSTILE
    assert HOSTILE.encode().hex() in run("read", topic, *url, "--format", "hex")
    # Payloads alone: as they are in a pipe, printable on a terminal.
    assert CliRunner().invoke(app, ["read", topic, *url, "--values-only"]).stdout_bytes == HOSTILE.encode() + b"\n"
    assert on_a_terminal("read", topic, *url, "--values-only").startswith(SHOWN)
    run("consume", topic, "-s", f"sub-{HOSTILE}", "-n", "1", "--log-level", "debug", *url)

    assert run("admin", *admin, "topics", "subscriptions", topic) == f"sub-{SHOWN}\n"
    assert list(json.loads(run("admin", *admin, "topics", "stats", topic))["subscriptions"]) == [f"sub-{HOSTILE}"]
    namespace = topic.partition("://")[2].rpartition("/")[0]
    assert SHOWN in run("topics", "tree", namespace, *admin)
    run("top", "-n", "1", *admin)
    for form in ("text", "table", "json", "yaml"):
        run("admin", *admin, "topics", "peek-messages", topic, "-s", f"sub-{HOSTILE}", "-o", form)
        run("top", "-n", "1", *admin, "-o", form)
