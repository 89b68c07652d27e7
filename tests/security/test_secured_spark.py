"""Spark on a secured Apache Pulsar: source and sink, credentials that expire, and what is seen of secrets."""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.eventually import eventually
from tests.security.secured_pulsar import (
    BASIC_PLUGIN,
    OAUTH2_PLUGIN,
    PASSWORD,
    ROLE,
    STRANGER,
    TLS_PLUGIN,
    TOKEN_PLUGIN,
    USER,
    SecuredPulsar,
)
from tests.unit.client.authentication.issuer import CLIENT_ID, CLIENT_SECRET, Issuer, key_file

_numbers = itertools.count()
VARIABLE = "TOKEN_OF_THE_TEST"


@pytest.fixture
def issuer(secured: SecuredPulsar) -> Iterator[Issuer]:
    """An OAuth 2.0 issuer whose tokens the broker knows."""
    one = Issuer()
    one.make_token = lambda: secured.issuer.token(ROLE, one.lives_s)
    yield one
    one.close()


def options(secured: SecuredPulsar, plugin: str, params: str, topic: str | None = None) -> dict[str, str]:
    """Options of a reader or writer that comes over TLS."""
    return {
        "service.url": secured.service_url,
        "pulsar.client.tlsTrustCertsFilePath": str(secured.authority.path),
        "pulsar.client.authPluginClassName": plugin,
        "pulsar.client.authParams": params,
        "topic": topic or f"secured-spark-{next(_numbers)}",
    }


def write(spark: SparkSession, to: dict[str, str], first: int, count: int) -> None:
    rows = spark.range(first, first + count, numPartitions=1).selectExpr("CONCAT('m', id) AS value")
    rows.write.format("pulsar").options(**to).mode("append").save()


def values(spark: SparkSession, of: dict[str, str]) -> list[str]:
    rows = spark.read.format("pulsar").options(**of).schema("value string").load().collect()
    return sorted(row.value for row in rows)


def texts(count: int) -> list[str]:
    return sorted(f"m{number}" for number in range(count))


def test_source_and_sink_with_a_token_over_tls(secured: SecuredPulsar, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(secured.issuer.token(ROLE))
    given = options(secured, TOKEN_PLUGIN, path.as_uri())
    write(spark, given, 0, 100)
    assert values(spark, given) == texts(100)
    copy = given | {"topic": f"{given['topic']}-copy"}
    stream = spark.readStream.format("pulsar").options(**given, startingOffsets="earliest").load()
    writer = stream.select("value").writeStream.format("pulsar").options(**copy)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    assert values(spark, copy) == texts(100)


def test_a_password_and_a_certificate(secured: SecuredPulsar, spark: SparkSession, tmp_path: Path) -> None:
    basic = options(secured, BASIC_PLUGIN, json.dumps({"userId": USER, "password": PASSWORD}))
    write(spark, basic, 0, 10)
    assert values(spark, basic) == texts(10)
    certificate, key = secured.authority.issue("client.test", common_name=ROLE)
    files = f"tlsCertFile:{certificate},tlsKeyFile:{key}"
    assert values(spark, options(secured, TLS_PLUGIN, files, basic["topic"])) == texts(10)


def test_a_running_query_outlives_its_credentials(
    secured: SecuredPulsar, spark: SparkSession, issuer: Issuer, tmp_path: Path
) -> None:
    issuer.lives_s = 4
    given = options(secured, OAUTH2_PLUGIN, issuer.params(key_file(tmp_path)))
    write(spark, given, 0, 5)
    stream = spark.readStream.format("pulsar").options(**given, startingOffsets="earliest").load()
    writer = stream.selectExpr("STRING(value) AS value").writeStream.format("memory").queryName("outlives")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        for known in (5, 10, 15):
            eventually(lambda known=known: spark.table("outlives").count() == known or query.exception(), 120, 0.5)
            assert query.exception() is None
            tokens = len(issuer.asked)
            eventually(lambda tokens=tokens: len(issuer.asked) >= tokens + 2, 60)
            if known < 15:
                write(spark, given, known, 5)
        assert sorted(row.value for row in spark.table("outlives").collect()) == texts(15)
    finally:
        query.stop()


@pytest.mark.timeout(600, func_only=True)
def test_secrets_are_shown_nowhere(secured: SecuredPulsar, issuer: Issuer, tmp_path: Path) -> None:
    """Neither in plans, progress, errors, logs of any process and events (from which the UI is made), nor in
    checkpoints: with secrets among the options, and Spark's own settings of what it hides."""
    token, stranger = secured.issuer.token(ROLE), secured.issuer.token(STRANGER)
    key = base64.b64encode(json.dumps({"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}).encode()).decode()
    in_url = "s3cret-url"
    todo = {
        "directory": str(tmp_path),
        "conf": {},
        "options": {
            "token": options(secured, TOKEN_PLUGIN, f"token:{token}"),
            "variable": options(secured, TOKEN_PLUGIN, f"env:{VARIABLE}"),
            "basic": options(secured, BASIC_PLUGIN, json.dumps({"userId": USER, "password": PASSWORD})),
            "oauth2": options(secured, OAUTH2_PLUGIN, issuer.params(f"data:application/json;base64,{key}")),
        },
        "refused": {
            "stranger": options(secured, TOKEN_PLUGIN, f"token:{stranger}"),
            "bare token": options(secured, TOKEN_PLUGIN, token),
            "password in the URL": {"service.url": f"pulsar://{USER}:{in_url}@broker", "topic": "t"},
        },
    }
    file = tmp_path / "todo"
    file.write_text(json.dumps(todo))
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        submit = str(Path(sys.executable).with_name("spark-submit"))  # it logs more than a session of `python`
        command = [submit, "--master", "local[2]", str(Path(__file__).with_name("showing.py")), str(file)]
        with_python = os.environ | {"PYSPARK_PYTHON": sys.executable, VARIABLE: token}
        done = subprocess.run(command, stdout=out, stderr=err, check=False, env=with_python, timeout=500)
    printed = (tmp_path / "out").read_text()
    assert done.returncode == 0, printed[-3000:] + (tmp_path / "err").read_text()[-3000:]
    assert "shown everything" in printed
    file.unlink()
    seen = {path: path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()}
    kinds = {path.relative_to(tmp_path).parts[0] for path in seen}
    assert {"out", "err", "events", "checkpoints"} <= kinds
    assert "INFO" in seen[tmp_path / "err"]
    assert any("pulsar.client.authParams" in text for path, text in seen.items() if "events" in path.parts)
    secrets = {"token": token, "stranger": stranger, "password": PASSWORD, "client secret": CLIENT_SECRET}
    secrets |= {"key": key, "signature": token.rpartition(".")[2], "password in the URL": in_url}
    shown = [f"{name} in {path}" for path, text in seen.items() for name, secret in secrets.items() if secret in text]
    assert not shown
