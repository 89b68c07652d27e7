"""The commands of the image, as scripts in a folder of their own: what Testcontainers and compose files start."""

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulsar
import pytest

from spark_pulsar.server.configuration.reading import parse_properties

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = (ROOT / "conf" / "Dockerfile").read_text()
# Testcontainers for Java (PulsarContainer 1.21.3) and for Go run these words in the folder /pulsar.
TESTCONTAINERS = "/pulsar/bin/apply-config-from-env.py /pulsar/conf/standalone.conf && bin/pulsar standalone"
LINE_OF_GO = "Successfully updated the policies on namespace public/default"
FREE_PORTS = {
    "PULSAR_PREFIX_brokerServicePort": "0",
    "PULSAR_PREFIX_webServicePort": "0",
    "PULSAR_PREFIX_bindAddress": "127.0.0.1",
}


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The folder /pulsar of the image, made by the words of the Dockerfile."""
    home = tmp_path / "pulsar"
    shutil.copytree(ROOT / "conf" / "image", home)
    assert "WORKDIR /pulsar\nCOPY conf/image ./\nCOPY conf/broker.conf conf/broker.conf\n" in DOCKERFILE
    shutil.copy(ROOT / "conf" / "broker.conf", home / "conf")
    [words] = re.findall(r"^RUN (cat conf/container\.conf.*)$", DOCKERFILE, re.MULTILINE)
    subprocess.run(words, shell=True, cwd=home, check=True)
    return home


def environment(**more: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": "/nowhere", **more}


def run(image: Path, command: str) -> subprocess.CompletedProcess[str]:
    words = ["/bin/bash", "-c", command]
    return subprocess.run(words, cwd=image, env=environment(), capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def started(image: Path, command: str, **more: str) -> Iterator[tuple[str, str]]:
    """A broker by a command line of a container: its service URL and admin URL."""
    words = ["/bin/bash", "-c", command.replace("/pulsar/", f"{image}/")]
    with (image / "stderr").open("w") as errors:
        process = subprocess.Popen(
            words, cwd=image, env=environment(**more), stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    assert process.stdout is not None
    with process, process.stdout as output:
        try:
            ready = next((line for line in iter(output.readline, b"") if line.startswith(b"ready ")), b"")
            assert ready, (image / "stderr").read_text()
            _, service_url, admin_url = ready.decode().split()
            yield service_url, admin_url
        finally:
            os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)


def answer(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as opened:
        assert opened.status == 200
        return str(opened.read().decode())


def test_testcontainers_finds_what_it_waits_for(image: Path) -> None:
    with started(image, f"{TESTCONTAINERS} --no-functions-worker -nss", **FREE_PORTS) as (service_url, admin_url):
        assert answer(f"{admin_url}/admin/v2/clusters") == '["standalone"]'
        client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
        client.create_producer("numbers").send(b"1")
        client.close()
        said = run(image, f"bin/pulsar-admin --admin-url {admin_url} topics list public/default")
        assert (said.stdout, said.stderr) == ("persistent://public/default/numbers\n", "")
        assert LINE_OF_GO in (image / "stderr").read_text()
    assert (image / "data" / "journal").is_dir()


def test_keys_of_the_environment_reach_the_broker(image: Path) -> None:
    more = FREE_PORTS | {"PULSAR_PREFIX_clusterName": "shop", "PULSAR_MEM": "-Xmx1g"}
    with started(image, f"{TESTCONTAINERS} --advertised-address pulsar --num-bookies=2", **more) as (_, admin_url):
        assert answer(f"{admin_url}/admin/v2/clusters") == '["shop"]'
        assert '"pulsar://pulsar:' in answer(f"{admin_url}/lookup/v2/topic/persistent/public/default/numbers")
        errors = (image / "stderr").read_text()
    assert "PULSAR_MEM has no effect" in errors
    assert "--num-bookies has no effect" in errors
    assert "there is no functions worker here" in errors


def test_transactions_are_switched_on_as_testcontainers_does(image: Path) -> None:
    # covers TX-22
    more = FREE_PORTS | {"PULSAR_PREFIX_transactionCoordinatorEnabled": "true"}
    with started(image, f"{TESTCONTAINERS} -nfw -nss", **more) as (_, admin_url):
        assert '"id":0' in answer(f"{admin_url}/admin/v3/transactions/coordinators")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("bin/pulsar bookie", "pulsar: bookie: not here, the broker is one process"),
        ("bin/pulsar standalone --no-broker", "--no-broker: the broker is all that there is here"),
        ("bin/pulsar standalone --wipe-data", "remove the data directory"),
        ("bin/pulsar standalone --no-function-worker", "unrecognized arguments: --no-function-worker"),
        ("bin/pulsar standalone -c conf/nothing.conf", "pulsar: conf/nothing.conf: No such file"),
        ("bin/pulsar-client listen", "usage: pulsar-client"),
        ("bin/apply-config-from-env.py conf/nothing.conf", "conf/nothing.conf: No such file"),
    ],
)
def test_mistakes_are_told(image: Path, command: str, said: str) -> None:
    done = run(image, command)
    assert done.returncode != 0
    assert said in done.stderr


def test_tokens_and_version(image: Path) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", run(image, "bin/pulsar version").stdout)
    assert run(image, "bin/pulsar tokens create-secret-key --output secret.key").returncode == 0
    assert (image / "secret.key").stat().st_size == 32
    assert "--subscription" in run(image, "bin/pulsar-client consume --help").stdout


def test_keys_are_set_added_and_shown_without_secrets(tmp_path: Path) -> None:
    conf = tmp_path / "a.conf"
    conf.write_text("# Port.\nport=1\n#limit=5\n# twice=0\ntwice=1\ntwice=2\nplain=a\n")
    script = ROOT / "conf" / "image" / "bin" / "apply-config-from-env.py"
    given = {"port": " 2 ", "limit": "6", "twice": "3", "tokenSecretKey": "data:;base64,AAAA"}
    done = subprocess.run(
        [sys.executable, str(script), str(conf)],
        env={f"PULSAR_PREFIX_{name}": text for name, text in given.items()} | {"plain": "b", "unrelated": "c"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert conf.read_text() == (
        "# Port.\nport=2\nlimit=6\n# twice=0\ntwice=1\ntwice=3\nplain=b\ntokenSecretKey=data:;base64,AAAA\n"
    )
    assert "AAAA" not in done.stdout
    assert f"{conf}: tokenSecretKey=*****\n" in done.stdout


def test_the_image_listens_beyond_its_loopback_address_and_is_not_root(image: Path) -> None:
    # covers SEC-40
    for name in ("broker.conf", "standalone.conf"):
        settings = parse_properties((image / "conf" / name).read_text())
        chosen = [settings[key] for key in ("bindAddress", "dataDirectory", "clusterName")]
        assert chosen == ["0.0.0.0", "data", "standalone"]
    stage = DOCKERFILE.partition("FROM broker AS spark")[0]
    assert "USER 10000:0\n" in stage
    assert all(os.access(script, os.X_OK) for script in (image / "bin").iterdir())
