"""docker-compose.yml, the Dockerfile and the files of conf/ fit together and the code; no container runs here."""

import re
import ssl
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import pytest
import yaml
from docs_tables.configuration import broker_conf
from typer.testing import CliRunner

from spark_pulsar import broker_process
from spark_pulsar.cli.main import app
from spark_pulsar.server.configuration.reading import KEYS, load_config, parse_properties
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


OBJECTS: dict[tuple[str, str], dict[str, Any]] = {
    (each["kind"], each["metadata"]["name"]): each
    for each in yaml.safe_load_all((ROOT / "conf" / "kubernetes.yaml").read_text())
}
CONF = OBJECTS["ConfigMap", "spark-pulsar"]["data"]["broker.conf"]
SET = OBJECTS["StatefulSet", "spark-pulsar"]["spec"]
POD = SET["template"]["spec"]
[BROKER] = POD["containers"]
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def test_the_objects_belong_together() -> None:
    labels = SET["template"]["metadata"]["labels"]
    assert SET["selector"]["matchLabels"] == labels
    assert ("Service", SET["serviceName"]) in OBJECTS
    assert SET["replicas"] == 1
    names = {port["name"]: port["containerPort"] for port in BROKER["ports"]}
    for (kind, _), each in OBJECTS.items():
        assert each["metadata"]["labels"] == labels
        if kind == "Service":
            assert each["spec"]["selector"] == labels
            assert all(names[port["targetPort"]] == port["port"] for port in each["spec"]["ports"])
    volumes = {each["name"] for each in POD["volumes"]} | {
        each["metadata"]["name"] for each in SET["volumeClaimTemplates"]
    }
    assert {mount["name"] for mount in BROKER["volumeMounts"]} == volumes
    assert {each["configMap"]["name"] for each in POD["volumes"] if "configMap" in each} == {"spark-pulsar"}


def test_paths_and_ports_are_those_of_the_configuration() -> None:
    settings = parse_properties(CONF)
    assert settings.keys() <= KEYS.keys()
    mounts = {mount["name"]: mount["mountPath"] for mount in BROKER["volumeMounts"]}
    assert settings["dataDirectory"].startswith(f"{mounts['data']}/")  # a volume's root has files of its own
    assert BROKER["command"][:2] == ["spark-pulsar", "broker"]
    assert BROKER["command"][2:] == ["--conf", f"{mounts['conf']}/broker.conf"]
    assert "--conf" in CliRunner().invoke(app, ["broker", "--help"]).stdout
    ports = {port["name"]: str(port["containerPort"]) for port in BROKER["ports"]}
    assert ports == {"pulsar": settings["brokerServicePort"], "http": settings["webServicePort"]}
    annotations = SET["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == ports["http"]


def test_the_pod_is_not_root_and_may_do_little() -> None:
    dockerfile = (ROOT / "conf" / "Dockerfile").read_text()
    [user] = re.findall(r"^USER (\d+):0$", dockerfile, re.MULTILINE)
    pod, broker = POD["securityContext"], BROKER["securityContext"]
    assert (pod["runAsNonRoot"], pod["runAsUser"], pod["fsGroup"]) == (True, int(user), int(user))
    assert (broker["allowPrivilegeEscalation"], broker["readOnlyRootFilesystem"]) == (False, True)
    assert broker["capabilities"] == {"drop": ["ALL"]}
    assert not POD["automountServiceAccountToken"]
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert BROKER["image"] == f"spark-pulsar:{version[1]}"


def test_a_broker_with_this_configuration_answers_the_probes(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(CONF.replace("0.0.0.0", "127.0.0.1").replace("=/data/", f"={tmp_path}/"))
    with broker_process(tmp_path / "data", conf) as broker:
        assert "no effect" not in broker.log
        assert "unknown key" not in broker.log
        paths = {BROKER[probe]["httpGet"]["path"] for probe in PROBES}
        paths.add(SET["template"]["metadata"]["annotations"]["prometheus.io/path"])
        for path in paths:
            with urllib.request.urlopen(broker.admin_url + path, timeout=30) as answer:
                assert answer.status == 200
    assert {BROKER[probe]["httpGet"]["port"] for probe in PROBES} == {"http"}


FOLDER = ROOT / "conf"


def test_broker_conf_is_made_from_the_keys() -> None:
    made = "run `make tables`"
    assert (FOLDER / "broker.conf").read_text() == broker_conf(), made


def test_broker_conf_lists_exactly_the_keys_that_have_an_effect_with_their_defaults() -> None:
    assert set(parse_properties((FOLDER / "broker.conf").read_text())) == set(KEYS)
    assert load_config(FOLDER / "broker.conf") == load_config()


@pytest.mark.parametrize("line", (FOLDER / "spark-defaults.conf").read_text().splitlines())
def test_spark_defaults_are_pairs(line: str) -> None:
    assert line.startswith(("#", "spark.")), line
    assert line.startswith("#") or len(line.split()) == 2, line
