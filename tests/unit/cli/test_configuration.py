"""`spark-pulsar config` with a running broker."""

import json

from typer.testing import CliRunner, Result

from spark_pulsar.cli.main import app
from tests.brokers import Broker


def config(broker: Broker, *words: str) -> Result:
    return CliRunner().invoke(app, ["config", *words, "--admin-url", broker.admin_url])


def test_a_key_is_set_read_and_taken_back(broker: Broker) -> None:
    rows = json.loads(config(broker, "list", "-o", "json").stdout)
    key = next(row["name"] for row in rows if row["value"] == "true")
    assert config(broker, "get", key).stdout == "true\n"
    try:
        done = config(broker, "set", key, "false")
        assert (done.exit_code, done.output) == (0, "")
        assert config(broker, "get", key).stdout == "false\n"
        rows = json.loads(config(broker, "list", "-o", "json").stdout)
        assert {"name": key, "value": "false", "set": True} in rows
    finally:
        config(broker, "delete", key)
    assert config(broker, "get", key).stdout == "true\n"


def test_keys_that_cannot_be_set(broker: Broker) -> None:
    unknown = config(broker, "get", "dataDirectry")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert unknown.stderr == "spark-pulsar config: the broker has no key dataDirectry: did you mean dataDirectory?\n"
    refused = config(broker, "set", "dataDirectory", "/elsewhere")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "dataDirectory" in refused.stderr
    assert "config delete" in config(broker, "set", "dataDirectory", "").stderr


def test_a_file_in_other_forms() -> None:
    values = json.loads(CliRunner().invoke(app, ["config", "show", "-o", "json"]).stdout)
    assert values["brokerServicePort"] == "6650"
