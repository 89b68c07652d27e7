"""Tables of policies, configuration keys and benchmarks hold together; that pages show them is `test_docs.py`."""

from __future__ import annotations

import shlex
from dataclasses import fields

from benchmarks.record import results
from benchmarks.record.rows import ROWS
from spark_pulsar.admin.app import ROUTES
from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.model.policies.effective_policies import EffectivePolicies
from spark_pulsar.model.policies.policy_table import BY_MEMBER, POLICIES
from spark_pulsar.server.configuration.reading import KEYS
from tests.architecture.sources import ROOT
from tests.architecture.test_rules import RULES, rows_of


def test_rules_of_keys_are_defined() -> None:
    defined = rows_of(RULES)
    assert not [key.name for key in KEYS.values() for rule in key.rules.split(", ") if rule and rule not in defined]


def test_a_row_names_fields_that_exist() -> None:
    assert len(BY_MEMBER) == len(POLICIES)
    effective = {each.name for each in fields(EffectivePolicies)}
    assert {policy.field for policy in POLICIES if policy.field} | {
        "size_quota",
        "age_quota",
        "resource_group",
    } == effective
    assert {name for policy in POLICIES for name in policy.defaults} <= {each.name for each in fields(BrokerConfig)}


def test_every_row_has_its_paths() -> None:
    namespace, topic = "admin/v2/namespaces/{tenant}/{namespace}", "admin/v2/{domain}/{tenant}/{namespace}/{topic}"
    methods = dict(ROUTES)
    for policy in POLICIES:
        for level, base in ((policy.namespace, namespace), (policy.topic, topic)):
            if level is not None:
                assert level.method in methods[f"{base}/{level.path}"], policy.member


def test_rows_of_benchmarks_have_names_of_their_own_and_results_have_rows() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert set(results.load()) <= set(names)


def test_rows_of_benchmarks_name_programs_that_store_their_figures() -> None:
    programs = {shlex.split(row.command)[0] for row in ROWS}
    assert not [each for each in programs if "add_option(" not in (ROOT / "benchmarks" / each).read_text()]
