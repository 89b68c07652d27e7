"""The dashboard and the alerts in `conf/` name metrics and labels that `/metrics` has."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.brokers import Broker

CONF = Path(__file__).parents[2] / "conf"
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? \S+$")
LABEL = re.compile(r'(\w+)="')
SELECTOR = re.compile(r"([a-z]\w*)(?:\{([^{}]*)\})?")
WORDS = {"sum", "rate", "by", "topk", "max", "and", "absent", "changes", "deriv", "increase", "label_values"}
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds."""

Series = dict[str, set[str]]
"""Labels of each metric."""


@pytest.fixture(scope="module")
def series(broker: Broker) -> Series:
    if broker.kind != "ours":
        pytest.skip("the files are for this broker: the metrics of its disk and of damage are ours")
    topic = broker.topic("monitored")
    client = broker.client()
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"x")
    consumer.receive(10_000)
    with urllib.request.urlopen(f"{broker.admin_url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found: Series = {}
    for line in text.splitlines():
        sample = None if line.startswith("#") else SAMPLE.match(line)
        if sample is not None and (topic in line or "topic=" not in line):
            found.setdefault(sample[1], set()).update(LABEL.findall(sample[2] or ""))
    return found


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CONF / "grafana-dashboard.json").read_text())
    return found


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((CONF / "prometheus-alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def questions() -> Iterator[tuple[str, str]]:
    """Expressions, each with the text that shows its labels."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["definition"], ""
    for rule in rules():
        yield rule["expr"], json.dumps(rule["annotations"])


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Metrics of an expression, with the labels that they are chosen by."""
    plain = re.sub(r"\[[^\]]*\]", "", re.sub(r'"[^"]*"', '""', expression))
    grouped = re.findall(r"by \(([^)]*)\)", plain) + re.findall(r"label_values\(.*, (\w+)\)", plain)
    bare = re.sub(r"by \([^)]*\)", "", re.sub(r"label_values\((.*), \w+\)", r"\1", plain))
    labels = {name.strip() for part in grouped for name in part.split(",")}
    for name, chosen in SELECTOR.findall(bare):
        if name not in WORDS:
            yield name, labels | {each.partition("=")[0].strip("~! ") for each in chosen.split(",") if each}


@pytest.mark.parametrize(("expression", "shown"), list(questions()))
def test_metrics_and_labels_exist(series: Series, expression: str, shown: str) -> None:
    found = list(selectors(expression))
    assert found, expression
    for name, labels in found:
        assert name in series, f"{name} in {expression}"
        assert labels <= series[name] | OF_PROMETHEUS, f"{name} in {expression}"
    first = series[found[0][0]] | OF_PROMETHEUS
    assert set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", shown)) <= first, shown


def test_the_names_are_told_from_the_words() -> None:
    expression = 'topk(10, sum by (topic) (rate(a_total{b=~"x_y",c="d"}[5m]))) and e > 0'
    assert dict(selectors(expression)) == {"a_total": {"b", "c", "topic"}, "e": {"topic"}}


def test_the_files_have_the_form_that_is_asked_for() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert dashboard()["schemaVersion"] >= 38, "Grafana 10"
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]
