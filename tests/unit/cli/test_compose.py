"""docker-compose.yml and the Dockerfile fit together and with the command line; no container runs here."""

import re
import ssl
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import pytest
import yaml
from typer.testing import CliRunner

from spark_pulsar import broker_process
from spark_pulsar.cli.main import app
from spark_pulsar.testing.certificates import Authority
from tests.apache_pulsar.start import CHOSEN_VERSION, VERSIONS

ROOT = Path(__file__).resolve().parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "conf" / "Dockerfile").read_text()


def test_the_services() -> None:
    services = COMPOSE["services"]
    profiles = {name: service.get("profiles") for name, service in services.items()}
    assert profiles == {
        "broker": None,
        "secured-broker": ["secured"],
        "spark-master": None,
        "spark-worker": None,
        "apache-pulsar": ["apache-pulsar"],
    }
    assert services["apache-pulsar"]["image"] == f"apachepulsar/pulsar:${{{CHOSEN_VERSION}:-{VERSIONS[0]}}}"


def test_builds_name_stages_of_the_dockerfile() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
    builds = [service["build"] for service in COMPOSE["services"].values() if "build" in service]
    assert {build["target"] for build in builds} == stages
    assert all((ROOT / build["dockerfile"]).is_file() for build in builds)


def test_what_is_mounted_and_copied_exists() -> None:
    mounts = [mount for service in COMPOSE["services"].values() for mount in service.get("volumes", [])]
    for source in {mount.partition(":")[0] for mount in mounts} - {"./secrets"}:
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


@pytest.mark.parametrize("name", ["broker", "secured-broker"])
def test_the_broker_is_started_with_options_that_exist(name: str) -> None:
    command = COMPOSE["services"][name]["command"]
    assert command[:2] == ["spark-pulsar", "broker"]
    help_text = CliRunner().invoke(app, ["broker", "--help"]).stdout
    assert all(word in help_text for word in command if word.startswith("--"))


def test_the_secured_variant_lets_in_those_who_have_a_token(tmp_path: Path) -> None:
    # covers AU-2, AU-7, SEC-42
    authority = Authority(tmp_path)
    certificate, key = authority.issue("broker", ("localhost",))
    certificate.rename(tmp_path / "broker.cert.pem")
    key.rename(tmp_path / "broker.key.pem")
    secret = str(tmp_path / "secret.key")
    assert CliRunner().invoke(app, ["tokens", "create-secret-key", "-o", secret]).exit_code == 0
    tokens = {
        role: CliRunner().invoke(app, ["tokens", "create", "-sk", secret, "-s", role]).stdout.strip()
        for role in ("admin", "somebody")
    }
    conf = (ROOT / "conf" / "secured.conf").read_text().replace("/secrets", str(tmp_path))
    (tmp_path / "secured.conf").write_text(conf.replace("=6651", "=0").replace("=8443", "=0"))
    with broker_process(conf=tmp_path / "secured.conf", port=None, http_port=None) as broker:
        assert (urlsplit(broker.service_url).scheme, urlsplit(broker.admin_url).scheme) == ("pulsar+ssl", "https")
        url = f"https://localhost:{urlsplit(broker.admin_url).port}/admin/v2/"
        trusted = ssl.create_default_context(cafile=str(authority.path))
        opener = build_opener(ProxyHandler({}), HTTPSHandler(context=trusted))
        opener.open(f"{url}brokers/ready").close()
        for headers in ({}, {"Authorization": f"Bearer {tokens['somebody']}"}):
            with pytest.raises(HTTPError) as refused:
                opener.open(Request(f"{url}tenants", headers=headers))
            assert refused.value.code == 401
            refused.value.close()
        opener.open(Request(f"{url}tenants", headers={"Authorization": f"Bearer {tokens['admin']}"})).close()
