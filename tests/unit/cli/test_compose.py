"""docker-compose.yml and the Dockerfile fit together and with the command line; no container runs here."""

import re
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from spark_pulsar.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "conf" / "Dockerfile").read_text()


def test_the_services() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"broker", "spark-master", "spark-worker", "apache-pulsar"}
    assert services["apache-pulsar"]["profiles"] == ["apache-pulsar"]
    assert services["apache-pulsar"]["image"] == "apachepulsar/pulsar:4.0.8"
    assert not any("profiles" in service for name, service in services.items() if name != "apache-pulsar")


def test_builds_name_stages_of_the_dockerfile() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
    builds = [service["build"] for service in COMPOSE["services"].values() if "build" in service]
    assert {build["target"] for build in builds} == stages
    assert all((ROOT / build["dockerfile"]).is_file() for build in builds)


def test_what_is_mounted_and_copied_exists() -> None:
    mounts = [mount for service in COMPOSE["services"].values() for mount in service.get("volumes", [])]
    for source in {mount.partition(":")[0] for mount in mounts}:
        assert (ROOT / source).is_dir() if source.startswith(".") else source in COMPOSE["volumes"]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE):
        for source in line.split():
            assert (ROOT / source).exists()
            assert f"!{source}" in ignored


def test_host_ports_do_not_clash_and_are_closed_to_other_machines() -> None:
    # covers SEC-40
    published = [port.split(":") for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert {address for address, _, _ in published} == {"127.0.0.1"}
    assert len(published) == len({port for _, port, _ in published})


def test_the_broker_is_started_with_options_that_exist() -> None:
    command = COMPOSE["services"]["broker"]["command"]
    assert command[:2] == ["spark-pulsar", "broker"]
    help_text = CliRunner().invoke(app, ["broker", "--help"]).stdout
    assert all(word in help_text for word in command if word.startswith("--"))
