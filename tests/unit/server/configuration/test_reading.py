"""Configuration: Pulsar's keys, overrides, keys that are unknown or have no effect."""

from dataclasses import fields
from pathlib import Path

import pytest

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.broker.configuration.keys import holds_secret, shown
from spark_pulsar.server.configuration.pulsar_keys import PULSAR_KEYS
from spark_pulsar.server.configuration.reading import KEYS, InvalidConfiguration, load_config, parse_properties
from spark_pulsar.server.configuration.server_config import ServerConfig
from tests.cases import cases


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
    assert load_config(None, {"tlsProtocols": "", "advertisedAddress": ""}) == load_config()


def test_listeners_and_the_one_of_clients_that_name_none() -> None:
    # covers SEC-47
    listeners = "in:pulsar://h:6650,out:pulsar+ssl://h:6651"
    config = load_config(None, {"advertisedListeners": listeners, "internalListenerName": "out"}).broker
    assert [each.name for each in config.advertised_listeners] == ["in", "out"]
    assert config.internal_listener == "out"
    with pytest.raises(InvalidConfiguration, match="internalListenerName=off: want one of in, out"):
        load_config(None, {"advertisedListeners": listeners, "internalListenerName": "off"})


def test_empty_port_means_none() -> None:
    # covers SEC-42
    config = load_config(None, {"brokerServicePort": "", "webServicePort": "", "brokerServicePortTls": 0})
    assert (config.port, config.http_port, config.tls_port, config.tls_http_port) == (None, None, 0, None)


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
        ("subscriptionTypesEnabled", ","),
        ("maxTopicsPerNamespace", "1.5"),
        ("maxTopicsPerNamespace", "\u0663"),
        ("maxUnackedMessagesPerSubscriptionOnBrokerBlocked", "nan"),
        ("maxUnackedMessagesPerSubscriptionOnBrokerBlocked", "1e-3"),
        ("advertisedAddress", "pulsar://host"),
        ("advertisedAddress", "::1"),
        ("journalMaxSizeMB", "2049"),
        ("advertisedListeners", "pulsar://host:6650"),
        ("internalListenerName", "inside"),
        ("tlsProtocols", "TLSv1.1"),
        ("tlsProtocols", "SSLv3,TLSv1.2"),
        ("tlsCiphers", ","),
    ],
)
def test_value_that_cannot_be_read_names_key_and_value_and_what_is_allowed(key: str, value: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"{key}={value}: want "):
        load_config(None, {key: value})


TEXTS = {"bindAddress", "dataDirectory", "clusterName", "advertisedAddress", "webServiceAllowedHosts", "basicAuthConf"}
TEXTS |= {"tlsCertificateFilePath", "tlsKeyFilePath", "tlsTrustCertsFilePath", "tlsCiphers", "webServiceTlsCiphers"}
TEXTS |= {"tokenSecretKey", "tokenPublicKey", "tokenAuthClaim", "tokenAudienceClaim", "tokenAudience"}
TEXTS |= {"anonymousUserRole", "authenticationProviders", "proxyRoles", "superUserRoles"}
TEXTS |= {"openIDAllowedTokenIssuers", "openIDAllowedAudiences", "openIDTokenIssuerTrustCertsFilePath"}
TEXTS |= {"openIDRoleClaim", "openIDIssuerKeyFiles"}


@cases("key", sorted(set(KEYS) - TEXTS))
def test_no_key_takes_what_nothing_could_be_done_with(key: str) -> None:
    for value in ("x", "9" * 19, "9" * 30, "1" + "0" * 5_000):
        with pytest.raises(InvalidConfiguration, match=f"^{key}={value}: want "):
            load_config(None, {key: value})


@pytest.mark.parametrize("address", ["broker", "broker:6650", "10.0.0.1", "[::1]", "[fe80::1%eth0]:6650"])
def test_addresses_to_advertise(address: str) -> None:
    assert load_config(None, {"advertisedAddress": address}).broker.advertised_address == address


def test_authorization_needs_authentication() -> None:  # covers SEC-63
    with pytest.raises(InvalidConfiguration, match="authorizationEnabled=true: want authenticationEnabled=true too"):
        load_config(None, {"authorizationEnabled": True})


def test_another_authorization_provider_is_refused_by_name() -> None:  # covers SEC-62
    with pytest.raises(InvalidConfiguration, match=r"authorizationProvider=com\.example\.Rules: want one of org"):
        load_config(None, {"authorizationProvider": "com.example.Rules"})


def test_no_key_both_has_an_effect_and_has_none() -> None:
    assert not PULSAR_KEYS & set(KEYS)


def test_line_that_is_no_setting() -> None:
    # covers SEC-85
    with pytest.raises(InvalidConfiguration, match="line 2") as error:
        parse_properties("a=1\nnonsense\n")
    assert "nonsense" not in str(error.value)


def test_secrets_are_in_no_text_of_the_configuration() -> None:
    # covers SEC-85
    held = [key for key in KEYS if holds_secret(key)]
    assert {"tokenSecretKey", "basicAuthConf"} <= set(held)
    assert holds_secret("brokerClientAuthenticationParameters")
    assert not holds_secret("tokenPublicKey")
    assert "marked" not in repr(load_config(None, dict.fromkeys(held, "marked")))
    assert (shown("tokenSecretKey", "marked"), shown("tokenSecretKey", ""), shown("a", "b")) == ("*****", "", "b")


def test_namespaces_and_units() -> None:
    config = load_config(
        None, {"additionalNamespaces": "t/a, t/b", "keepAliveIntervalSeconds": 5, "managedLedgerCacheSizeMB": 2}
    ).broker
    assert config.namespaces == ("public/default", "t/a", "t/b")
    assert (config.keep_alive_interval_ms, config.handshake_timeout_ms) == (5000, 5000)
    assert config.cache_bytes == 2 * 1024 * 1024


def test_every_key_sets_one_field() -> None:
    made = [each for each in (*fields(ServerConfig), *fields(BrokerConfig)) if each.metadata]
    assert [each.metadata["key"].name for each in made] == list(KEYS)


def test_every_key_says_what_it_is_for() -> None:
    assert all(key.meaning for key in KEYS.values())
