"""The fixtures of pytest, in runs of their own, in empty directories."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
import yaml
from pyarrow import csv, parquet

import spark_pulsar
from spark_pulsar.testing.running import check_access

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = ROOT / "spark_pulsar" / "testing" / "plugin.py"
# As the wheel has it, from its source; the one that may be installed is an earlier copy.
LOADED = ("-p", "no:spark_pulsar", "-p", "pytest_spark_pulsar")

# What the run of this test has set is not there in a user's.
ENVIRONMENT = {name: text for name, text in os.environ.items() if name not in ("PYSPARK_PYTHON", "PYTEST_ADDOPTS")}


def run_pytest(directory: Path, test: str, *options: str, ini: str = "", status: int = 0, **environment: str) -> str:
    """Run pytest on one file, with warnings as errors and no other plugin than those of `options`."""
    shutil.copy(PLUGIN, directory / "pytest_spark_pulsar.py")
    (directory / "test_orders.py").write_text(test)
    (directory / "pytest.ini").write_text(f"[pytest]\naddopts = --strict-markers --strict-config\n{ini}")
    command = [sys.executable, "-W", "error", "-m", "pytest", *LOADED, "-p", "no:cacheprovider", "-p", "no:timeout"]
    done = subprocess.run(
        [*command, "-p", "no:rerunfailures", "-W", "error", "-rA", *options],
        cwd=directory,
        env=ENVIRONMENT | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


FIXTURES = """
import pytest

seen = []


def test_orders(pulsar_client, pulsar_topic, pulsar_broker):
    consumer = pulsar_client.subscribe(pulsar_topic, "billing")
    pulsar_client.create_producer(pulsar_topic).send(b"one")
    assert consumer.receive(5000).data() == b"one"
    assert pulsar_broker.admin().backlog(pulsar_topic, "billing") == 1
    assert pulsar_topic.endswith("/test_orders")
    seen.append(pulsar_topic)


@pytest.mark.pulsar_topic(partitions=3)
@pytest.mark.parametrize("currency", ["a partition 1/\u20ac"])
def test_prices(pulsar_topic, pulsar_topic_factory, pulsar_namespace, pulsar_broker, currency):
    admin = pulsar_broker.admin()
    assert admin.partitions(pulsar_topic) == 3
    assert pulsar_topic.startswith(f"persistent://{pulsar_namespace}/test_prices-a-partition_1-")
    other = pulsar_topic_factory("orders", partitions=2)
    assert other == f"persistent://{pulsar_namespace}/orders"
    assert admin.topics(pulsar_namespace) == sorted([pulsar_topic, other])
    seen.append(pulsar_topic)


def test_what_is_left(pulsar_broker):
    assert pulsar_broker.admin().namespaces("public") == ["public/default"]
    assert len({topic.rpartition("/")[0] for topic in seen}) == 2
    assert pulsar_broker.admin().get("clusters") == ["shop"]
"""


def test_a_broker_topics_and_a_client(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path, FIXTURES, ini="pulsar_broker_conf =\n    clusterName=shop\n    maxMessageSize=1048576\n"
    )
    assert "3 passed" in said
    assert "ERROR" not in said  # the official client's log: it was closed before its topics were deleted


SECURED = """
import pulsar
import pytest


def test_roles(pulsar_client, pulsar_topic, pulsar_namespace, pulsar_broker):
    assert pulsar_broker.service_url.startswith("pulsar+ssl://")
    pulsar_client.create_producer(pulsar_topic).send(b"one")
    reader = pulsar_broker.client(role="reader")
    with pytest.raises(pulsar.AuthorizationError):
        reader.subscribe(pulsar_topic, "billing")
    pulsar_broker.admin().grant(pulsar_namespace, "reader", "consume")
    reader.subscribe(pulsar_topic, "billing")
    assert pulsar_broker.admin().subscriptions(pulsar_topic) == ["billing"]
    reader.close()


def test_refused(pulsar_broker, pulsar_topic):
    pulsar_broker.client(role="stranger").subscribe(pulsar_topic, "billing")
"""


def test_a_secured_broker_whose_log_is_in_the_report_of_a_failure(tmp_path: Path) -> None:
    # covers SEC-84
    said = run_pytest(tmp_path, SECURED, ini="pulsar_broker_token = true\npulsar_broker_tls = true\n", status=1)
    assert "1 failed, 1 passed" in said
    log = said.partition("Captured log of the Pulsar broker")[2]
    assert "stranger" in log
    assert "reader" not in log  # that was another test


WORKERS = """
import os

import pytest


@pytest.mark.parametrize("number", range(4))
def test_alone(pulsar_broker, pulsar_topic, number):
    with open("seen", "a") as file:
        file.write(f"{os.environ['PYTEST_XDIST_WORKER']} {pulsar_broker.service_url}\\n")
"""


def test_each_worker_of_xdist_has_a_broker(tmp_path: Path) -> None:
    run_pytest(tmp_path, WORKERS, "-n", "2", "--dist", "each")
    seen = {tuple(line.split()) for line in (tmp_path / "seen").read_text().splitlines()}
    assert len(seen) == len({worker for worker, _ in seen}) == len({url for _, url in seen}) == 2


RUNNING = """
def test_there(pulsar_client, pulsar_topic, pulsar_broker):
    pulsar_client.create_producer(pulsar_topic).send(b"one")
    assert "RunningPulsar" in repr(pulsar_broker)
    assert pulsar_broker.spark_options["service.url"] == pulsar_broker.service_url
"""


def test_a_pulsar_that_runs_already(tmp_path: Path) -> None:
    with spark_pulsar.broker_process(token=True) as broker:
        access = broker.as_role("admin")
        options = ["--pulsar-service-url", broker.service_url, "--pulsar-admin-url", broker.admin_url]
        run_pytest(tmp_path, RUNNING, *options, "--pulsar-token-file", str(access.token_path))
        assert broker.admin().namespaces("public") == ["public/default"]
        # Without the right to make namespaces there is a reason, not a traceback.
        said = run_pytest(tmp_path, RUNNING, *options, status=1)
        assert "the fixture pulsar_namespace: PUT" in said
        assert "Traceback" not in said


MISTAKES = """
import pytest


@pytest.fixture(scope="session")
def pulsar_broker_conf():
    return {"maxMesageSize": 1}


def test_unknown_key(pulsar_broker):
    pass
"""
ENDED = """
import pytest


def test_one(pulsar_broker):
    pulsar_broker.stop()


def test_two(pulsar_topic):
    pass


def test_three(pulsar_broker):
    pulsar_broker.restart()


@pytest.mark.pulsar_topic(3)
def test_four(pulsar_topic):
    pass
"""


def test_mistakes_are_told_in_a_sentence(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, MISTAKES, status=1)
    assert "pulsar_broker_conf: unknown key 'maxMesageSize': did you mean maxMessageSize?" in said
    said = run_pytest(tmp_path, ENDED, status=1)
    assert "2 passed, 2 errors" in said
    assert "the broker of this session stopped: a test that ends it starts it again" in said
    assert "the marker takes a number of partitions, and messages: @pytest.mark.pulsar_topic(partitions=3)" in said


@pytest.mark.parametrize(
    ("ini", "said", "status"),
    [
        ("pulsar_broker_cnf = a=b", "Unknown config option: pulsar_broker_cnf", 4),
        ("pulsar_broker_token = maybe", "pulsar_broker_token: invalid truth value 'maybe': want true or false", 4),
        ("pulsar_broker_conf = maxMessageSize", "pulsar_broker_conf: want lines key=value, got 'maxMessageSize'", 1),
        ("pulsar_tenant = a b", "pulsar_tenant = a b: Invalid topic name: ", 1),
    ],
)
def test_keys_of_pytests_file_are_checked(tmp_path: Path, ini: str, said: str, status: int) -> None:
    shown = run_pytest(tmp_path, "def test_one(pulsar_namespace):\n    pass\n", ini=f"{ini}\n", status=status)
    assert said in shown
    assert "Traceback" not in shown
    assert "spark_pulsar/testing" not in shown


@pytest.mark.parametrize(
    ("service_url", "admin_url", "said"),
    [
        ("pulsar://a:6650", "", "has two: --pulsar-service-url and --pulsar-admin-url"),
        ("http://a:8080", "http://a:8080", "--pulsar-service-url http://a:8080: want pulsar:// or pulsar+ssl://"),
        ("pulsar://a:6650", "a:8080", "--pulsar-admin-url a:8080: want http:// or https://"),
    ],
)
def test_addresses_of_a_pulsar_are_checked(service_url: str, admin_url: str, said: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=re.escape(said)):
        check_access({"service_url": service_url, "admin_url": admin_url})


NEEDLESS = """
import os
import sys

import pytest


def test_nothing_was_imported():
    assert "pytest_spark_pulsar" in sys.modules
    assert not [name for name in sys.modules if name.startswith("spark_pulsar")]
    assert "PYSPARK_PYTHON" not in os.environ
    assert not {"pyspark", "pulsar", "pyarrow", "numpy", "google.protobuf"} & set(sys.modules)


@pytest.fixture(scope="module")
def missing():
    sys.modules["pulsar"] = sys.modules["pyspark"] = None  # as if they were not installed


def test_client(missing, pulsar_client):
    pass


def test_session(missing, spark_pulsar_session):
    pass
"""


def test_nothing_is_imported_before_it_is_used_and_what_is_missing_is_named(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, NEEDLESS, status=1)
    assert "pulsar_client: the official client is not installed: pip install 'spark-pulsar[cli]'" in said
    assert "spark_pulsar_session: PySpark is not installed: pip install 'spark-pulsar[spark]'" in said
    assert "1 passed, 2 errors" in said
    assert "During handling" not in said


PAGE = (ROOT / "docs" / "testing.md").read_text()


def blocks(language: str) -> list[str]:
    """What the page shows of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.long
def test_the_examples_of_the_docs_run_as_they_stand(tmp_path: Path) -> None:
    tests, conftest, seeded, *programs = blocks("python")
    assert "def spark_pulsar_session(spark)" in conftest
    [orders] = blocks("json")
    (tmp_path / "orders.jsonl").write_text(orders)
    # One run, in which the broker has seen the rows of both. PySpark leaves sockets to the collector, and its own
    # warnings are its own.
    spared = ("-W", "default::ResourceWarning", "-W", "default::DeprecationWarning")
    (tmp_path / "test_seeded.py").write_text(seeded)
    assert "5 passed" in run_pytest(tmp_path, tests, *spared)
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()


def test_the_workflow_of_the_docs_is_whole() -> None:
    [workflow] = [yaml.safe_load(block) for block in blocks("yaml") if "jobs:" in block]
    [job] = workflow["jobs"].values()
    install, run = (step["run"] for step in job["steps"] if "run" in step)
    assert "spark-pulsar[all] @ git+https://" in install
    missing = [option for option in re.findall(r" (--pulsar[\w-]+)", run) if f'"{option}"' not in PLUGIN.read_text()]
    assert (missing, job["timeout-minutes"], workflow["permissions"]) == ([], 20, {"contents": "read"})


MESSAGES = """
import pytest


@pytest.mark.parametrize("name", ["o.csv", "o.json", "o.parquet", "o.txt"])
def test_files(pulsar_topic_factory, pulsar_broker, name):
    topic = pulsar_topic_factory(file=name, schema_type="AVRO")
    from spark_pulsar import read_table

    rows = read_table(pulsar_broker.service_url, topic, columns=["value" if name == "o.txt" else "item"])
    assert rows.to_pylist() == [{"value": b"apples"} if name == "o.txt" else {"item": "apples"}]


def test_a_broker_that_was_ended_runs_again(pulsar_broker_factory):
    broker = pulsar_broker_factory(token=True)
    broker.kill()
    assert pulsar_broker_factory({}, token=True) is broker
    assert broker.is_running
    assert pulsar_broker_factory() is not broker
    assert pulsar_broker_factory({"maxMessageSize": 1024}) is pulsar_broker_factory({"maxMessageSize": "1024"})


@pytest.mark.parametrize("given", [
    {"file": "o.xls"}, {"file": "none.csv"}, {"rows": ["a"], "key": "k"}, {"rows": [{"a": 1}], "key": "k"},
    {"rows": "text"}, {"rows": [], "file": "o.csv"}, {"rows": ["a", 5]}, {"rows": [{"a": 1}, {"a": "x"}]},
    {"file": "bad.jsonl"}, {"file": "bad.csv"}, {"file": "bytes.txt"}, {"rows": [{"a": 1}], "schema_type": "AVRRO"},
])
def test_mistakes(pulsar_topic_factory, given):
    pulsar_topic_factory(**given)


def test_unknown_key(pulsar_broker_factory):
    pulsar_broker_factory({"maxMesageSize": 1})
"""
SAID = (
    "o.xls: the name of a file with messages ends in .jsonl, .ndjson, .json, .csv, .parquet, .txt",
    "none.csv",
    "key='k': texts have no columns; give rows with names, such as {'k': …}",
    "key='k' is no column; there are a",
    "want a list of rows, got str",
    "give rows or a file",
    "row 2 is 5: give texts alone, or dictionaries alone",
    "Could not convert 'x' with type str",
    "bad.jsonl: line 2 is no JSON: Expecting value",
    "bad.csv: CSV parse error",
    "bytes.txt: 'utf-8' codec can't decode",
    "option schemaType = 'AVRRO': expected one of",
    "unknown key 'maxMesageSize': did you mean maxMessageSize?",
)


def test_messages_of_files_brokers_by_configuration_and_mistakes(tmp_path: Path) -> None:
    table = pa.table({"item": ["apples"]})
    csv.write_csv(table, tmp_path / "o.csv")
    parquet.write_table(table, tmp_path / "o.parquet")
    (tmp_path / "o.json").write_text('[{"item": "apples"}]')
    (tmp_path / "o.txt").write_text("apples\n")
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\n{"a":\n')
    (tmp_path / "bad.csv").write_text("a,b\n1\n2,3,4\n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\n")
    said = run_pytest(tmp_path, MESSAGES, status=1)
    assert "13 failed, 5 passed" in said
    assert [text for text in SAID if text not in said] == []


SHARED = """
import os

import pytest


@pytest.mark.parametrize("number", range(4))
def test_together(pulsar_broker, pulsar_topic, pulsar_client, number):
    pulsar_broker.seed(pulsar_topic, ["one"])
    with open("seen", "a") as file:
        file.write(f"{os.environ['PYTEST_XDIST_WORKER']} {pulsar_broker.service_url} {pulsar_topic}\\n")
"""
CONFIGURED = """
import pytest


@pytest.fixture(scope="session")
def pulsar_broker_conf():
    return {"maxMessageSize": 1024}


def test_it(pulsar_broker):
    pass
"""


def test_workers_of_xdist_share_a_secured_broker(tmp_path: Path) -> None:
    ini = "pulsar_broker_token = true\npulsar_broker_tls = true\npulsar_broker_shared = true\n"
    run_pytest(tmp_path, SHARED, "-n", "2", "--dist", "each", ini=ini)
    seen = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    workers, [url], topics = (set(column) for column in zip(*seen, strict=True))
    assert (len(workers), len(topics)) == (2, 8)
    address = urlsplit(url)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.hostname, address.port), timeout=60)
    said = run_pytest(tmp_path, CONFIGURED, "-n", "1", "--pulsar-broker-shared", status=1)
    assert "the workers share one broker (pulsar_broker_shared), which a fixture pulsar_broker_conf cannot" in said
