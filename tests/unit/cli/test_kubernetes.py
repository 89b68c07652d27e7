"""conf/kubernetes.yaml fits the broker and the image; no cluster runs here.

(Its form was checked by the schemas of Kubernetes: kubernetes-validate.)
"""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from spark_pulsar import broker_process
from spark_pulsar.cli.main import app
from spark_pulsar.server.configuration.reading import KEYS, parse_properties

ROOT = Path(__file__).resolve().parents[3]
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
