"""The table of policies holds together."""

from __future__ import annotations

from dataclasses import fields

from spark_pulsar.admin.app import ROUTES
from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.model.policies.effective_policies import EffectivePolicies
from spark_pulsar.model.policies.policy_table import BY_MEMBER, POLICIES


def test_a_row_names_fields_that_exist() -> None:
    assert len(BY_MEMBER) == len(POLICIES)
    effective = {each.name for each in fields(EffectivePolicies)}
    assert {policy.field for policy in POLICIES if policy.field} == effective - {
        "size_quota",
        "age_quota",
        "resource_group",
    }
    assert {name for policy in POLICIES for name in policy.defaults} <= {each.name for each in fields(BrokerConfig)}


def test_every_row_has_its_paths() -> None:
    namespace, topic = "admin/v2/namespaces/{tenant}/{namespace}", "admin/v2/{domain}/{tenant}/{namespace}/{topic}"
    methods = dict(ROUTES)
    for policy in POLICIES:
        for level, base in ((policy.namespace, namespace), (policy.topic, topic)):
            if level is not None:
                assert level.method in methods[f"{base}/{level.path}"], policy.member
