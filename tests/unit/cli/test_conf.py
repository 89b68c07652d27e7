"""Files of conf/ agree with the code."""

from pathlib import Path

import pytest
from docs_tables.configuration import broker_conf

from spark_pulsar.server.configuration.reading import KEYS, load_config, parse_properties

CONF = Path(__file__).resolve().parents[3] / "conf"


def test_broker_conf_is_made_from_the_keys() -> None:
    made = "run `make tables`"
    assert (CONF / "broker.conf").read_text() == broker_conf(), made


def test_broker_conf_lists_exactly_the_keys_that_have_an_effect() -> None:
    assert set(parse_properties((CONF / "broker.conf").read_text())) == set(KEYS)


def test_broker_conf_holds_the_defaults() -> None:
    assert load_config(CONF / "broker.conf") == load_config()


@pytest.mark.parametrize("line", (CONF / "spark-defaults.conf").read_text().splitlines())
def test_spark_defaults_are_pairs(line: str) -> None:
    assert line.startswith(("#", "spark.")), line
    assert line.startswith("#") or len(line.split()) == 2, line
