"""Refusals of tables of Spark's catalog, whose options are lost."""

from __future__ import annotations

import pytest

from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.parsing import parse_options

URL = "pulsar://h:6650"


def refusal(raw: dict[str, str]) -> str:
    with pytest.raises(OptionError) as refused:
        parse_options(raw)
    return str(refused.value)


def test_a_table_without_columns_is_answered_with_its_view() -> None:
    # covers READ-28
    table = {"provider": "pulsar", "owner": "me", "option.topic": "it's", "service.url": URL, "topic": "it's"}
    assert refusal(table).endswith(
        r"use a view: CREATE TEMPORARY VIEW flights USING pulsar OPTIONS "
        rf"(`service.url` '{URL}', `topic` 'it\'s')"
    )


def test_secrets_are_not_repeated() -> None:
    # covers READ-28
    secret = {"pulsar.client.authparams": "token:abc", "provider": "pulsar", "service.url": "pulsar://me:abc@h:6650"}
    assert "abc" not in refusal(secret)
    assert "`pulsar.client.authParams` '" in refusal(secret)


def test_no_options_at_all_are_those_of_a_table() -> None:
    # covers READ-28
    told = refusal({})
    assert "CREATE TEMPORARY VIEW flights USING pulsar OPTIONS (`service.url` 'pulsar://localhost:6650'" in told
    assert "WITH (`service.url` = '…', topic = '…')" in told
    assert "VIEW" not in refusal({"topic": "t"})
