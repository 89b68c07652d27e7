"""Configuration: Pulsar's keys, overrides, what is unknown or has no effect."""

from pathlib import Path

import pytest

from spark_pulsar.server.config import KEYS, InvalidConfiguration, load_config, parse_properties


def test_keys_of_a_file_with_overrides_on_top(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("# comment\n! another\n\nbrokerServicePort = 1234\nclusterName=one\nmaxMessageSize=1000\n")
    config = load_config(conf, {"clusterName": "two", "allowAutoTopicCreation": False, "webServicePort": 0})
    assert (config.port, config.http_port) == (1234, 0)
    assert (config.broker.cluster_name, config.broker.max_message_size_bytes) == ("two", 1000)
    assert config.broker.allow_auto_topic_creation is False


def test_keys_without_effect_are_named() -> None:
    config = load_config(None, {"tlsEnabled": "true", "brokerServicPort": 1, "journalSyncData": "false"})
    assert config.unsupported_keys == ("tlsEnabled",)
    assert config.unknown_keys == ("brokerServicPort",)
    assert config.journal_sync is False


def test_empty_value_means_not_set() -> None:
    assert load_config(None, {"brokerServicePort": "", "advertisedAddress": ""}) == load_config()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("brokerServicePort", "66000"),
        ("brokerServicePort", "x"),
        ("defaultNumPartitions", "0"),
        ("allowAutoTopicCreation", "yes"),
        ("allowAutoTopicCreationType", "both"),
        ("subscriptionTypesEnabled", "Exclusive,Often"),
        ("additionalNamespaces", "nobody"),
        ("maxTopicsPerNamespace", "-1"),
        ("journalMaxSizeMB", "2049"),
    ],
)
def test_value_that_cannot_be_read_names_key_and_value(key: str, value: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"{key}={value}"):
        load_config(None, {key: value})


def test_line_that_is_no_setting() -> None:
    with pytest.raises(InvalidConfiguration, match="line 2"):
        parse_properties("a=1\nnonsense\n")


def test_namespaces_and_units() -> None:
    config = load_config(
        None, {"additionalNamespaces": "t/a, t/b", "keepAliveIntervalSeconds": 5, "managedLedgerCacheSizeMB": 2}
    ).broker
    assert config.namespaces == ("public/default", "t/a", "t/b")
    assert (config.keep_alive_interval_ms, config.handshake_timeout_ms) == (5000, 5000)
    assert config.cache_bytes == 2 * 1024 * 1024


def test_every_key_says_what_it_is_for() -> None:
    assert all(key.help for key in KEYS.values())
