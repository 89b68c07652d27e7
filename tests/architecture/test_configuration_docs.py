"""The table of configuration keys in docs/broker-configuration.md is complete, and names rules that exist."""

from __future__ import annotations

import re

from spark_pulsar.server.configuration.reading import KEYS
from tests.architecture.sources import ROOT
from tests.architecture.test_rules import RULES, rows_of

PAGE = (ROOT / "docs" / "broker-configuration.md").read_text()


def test_every_key_has_one_row() -> None:
    table = PAGE.partition("<!-- keys -->")[2].partition("<!-- /keys -->")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(KEYS)


def test_rules_of_keys_are_defined() -> None:
    defined = rows_of(RULES)
    assert not [key.name for key in KEYS.values() for rule in key.rules.split(", ") if rule and rule not in defined]
