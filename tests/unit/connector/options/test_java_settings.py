"""Settings of the Java client among the options: read as ours, without effect, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.java_settings import JAVA_SETTINGS, PREFIXES, names_below
from spark_pulsar.connector.options.offsets import SomePositions
from spark_pulsar.connector.options.options import OPTIONS, Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ, BATCH_WRITE, STREAM_READ, STREAM_WRITE, UNSUPPORTED

TOPIC = "persistent://public/default/t"
CLIENT, READER, PRODUCER = "pulsar.client.", "pulsar.reader.", "pulsar.producer."


def parse(**options: str) -> Options:
    return parse_options({"service.url": "pulsar://h", "topic": "t"} | options)


@pytest.mark.parametrize(
    ("setting", "text", "field", "value"),
    [
        (CLIENT + "operationTimeoutMs", "5000", "operation_timeout_ms", 5_000),
        (CLIENT + "connectionTimeoutMs", "5000", "connection_timeout_ms", 5_000),
        (CLIENT + "keepAliveIntervalSeconds", "5", "keep_alive_interval_seconds", 5),
        (CLIENT + "memoryLimitBytes", "4096", "memory_limit_bytes", 4_096),
        (READER + "receiverQueueSize", "7", "receiver_queue_size", 7),
        (READER + "subscriptionName", "mine", "subscription_prefix", "mine"),
        (READER + "subscriptionRolePrefix", "mine", "subscription_prefix", "mine"),
        (PRODUCER + "sendTimeoutMs", "0", "send_timeout_ms", 86_400_000),
        (PRODUCER + "batchingEnabled", "false", "batching_max_messages", 1),
        (PRODUCER + "batchingMaxMessages", "5000000", "batching_max_messages", 100_000),
        (PRODUCER + "batchingMaxBytes", "4096", "batching_max_bytes", 4_096),
        (PRODUCER + "batcherBuilder", "key_based", "batcher_builder", "KEY_BASED"),
        (PRODUCER + "compressionType", "zstd", "compression_type", "ZSTD"),
        (PRODUCER + "messageRoutingMode", "SinglePartition", "message_routing_mode", "SinglePartition"),
        (PRODUCER + "hashingScheme", "Murmur3_32Hash", "hashing_scheme", "Murmur3_32Hash"),
        (PRODUCER + "chunkingEnabled", "true", "chunking_enabled", True),
        (PRODUCER + "batchingMaxBytes", "999999999", "batching_max_bytes", 5 * 1024 * 1024),
        (PRODUCER + "properties", '{"team": "flights"}', "producer_properties", (("team", "flights"),)),
        (PRODUCER + "encryptionKeys", '["a", "b"]', "encryption_keys", ("a", "b")),
        (PRODUCER + "maxPendingMessages", "2500", "pending_entries", 2),
    ],
)
def test_a_setting_is_read_as_an_option(setting: str, text: str, field: str, value: Any) -> None:
    # covers READ-43
    for name in (setting, setting.lower()):
        assert getattr(parse(**{name: text}), field) == value


def test_every_setting_that_is_read_names_an_option() -> None:
    names = {option.name for option in OPTIONS}
    assert {setting.option for setting in JAVA_SETTINGS if setting.option} <= names
    assert all(setting.reason for setting in JAVA_SETTINGS if not setting.option)
    of_java = [setting.name for setting in JAVA_SETTINGS]
    assert len({name.lower() for name in of_java}) == len(of_java)
    assert not {*of_java} & {*names, *UNSUPPORTED}
    assert all(names_below(prefix) for prefix in PREFIXES)


@pytest.mark.parametrize("setting", [setting.name for setting in JAVA_SETTINGS if not setting.option])
def test_a_setting_without_effect_is_accepted_and_named(setting: str) -> None:
    # covers READ-44
    assert setting in parse(**{setting: "1"}).without_effect


def test_an_option_wins_over_a_setting() -> None:
    options = parse(
        **{"subscriptionPrefix": "a", READER + "subscriptionName": "b", PRODUCER + "compressionType": "LZ4"}
    )
    assert (options.subscription_prefix, options.compression_type) == ("a", "LZ4")
    assert options.without_effect == {READER + "subscriptionName": "subscriptionPrefix says it"}
    unbatched = parse(**{PRODUCER + "batchingEnabled": "false", PRODUCER + "batchingMaxMessages": "10"})
    assert unbatched.batching_max_messages == 1
    assert unbatched.without_effect == {PRODUCER + "batchingMaxMessages": "pulsar.producer.batchingEnabled says it"}


def test_a_setting_that_needs_another() -> None:
    alone = parse(**{PRODUCER + "chunkMaxMessageSize": "9", PRODUCER + "cryptoFailureAction": "SEND"})
    assert set(alone.without_effect) == {PRODUCER + "chunkMaxMessageSize", PRODUCER + "cryptoFailureAction"}
    both = parse(**{PRODUCER + "chunkMaxMessageSize": "9", "chunkingEnabled": "true"})
    assert both.for_write(BATCH_WRITE).chunk_max_message_size == 9
    reader = parse(**{READER + "cryptoFailureAction": "CONSUME"})
    assert reader.for_read(BATCH_READ).crypto_failure_action == "CONSUME"
    assert reader.for_write(BATCH_WRITE).crypto_failure_action == "FAIL"


def test_what_a_job_has_no_use_for_is_named_and_has_its_default() -> None:
    # covers READ-44
    shared = {
        "failOnDataLoss": "false",
        "maxBytesPerTrigger": "5",
        "endingTime": "7",
        READER + "readCompacted": "true",
        PRODUCER + "compressionType": "LZ4",
    }
    batch, stream = (parse(**shared).for_read(use) for use in (BATCH_READ, STREAM_READ))
    assert (batch.read_compacted, batch.ending_time, batch.max_bytes_per_trigger) == (True, 7, None)
    assert (stream.read_compacted, stream.ending_time, stream.max_bytes_per_trigger) == (False, None, 5)
    assert set(stream.without_effect) == {"endingTime", *(name for name in shared if name.startswith("pulsar."))}
    for use in (BATCH_WRITE, STREAM_WRITE):
        write = parse(**shared).for_write(use)
        assert (write.compression_type, write.fail_on_data_loss) == ("LZ4", True)
        assert set(write.without_effect) == {
            *("failOnDataLoss", "maxBytesPerTrigger", "endingTime"),
            READER + "readCompacted",
        }


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("pulsar.client.numIoThread", "pulsar.client.numIoThreads"),
        ("pulsar.admin.authPluginClasName", "pulsar.admin.authPluginClassName"),
        ("pulsar.reader.recieverQueueSize", "pulsar.reader.receiverQueueSize"),
        ("pulsar.producer.blockIfQueFull", "pulsar.producer.blockIfQueueFull"),
    ],
)
def test_a_misspelt_setting_is_an_error_that_names_the_nearest(misspelt: str, meant: str) -> None:
    # covers READ-43
    with pytest.raises(OptionError, match=f"unknown option {misspelt}; did you mean {meant}"):
        parse(**{misspelt: "1"})


def test_offsets_of_streamnative() -> None:
    # covers OFFSET-26
    ids = f'{{"{TOPIC}": [8, -56, 1, 16, 34, 32, 2]}}'
    options = parse(startingOffsets=ids, endingOffsets=ids)
    assert options.starting_offsets == {TOPIC: "200:34:2"}
    assert options.ending_offsets == {TOPIC: "200:34:3"}
    assert isinstance(options.starting_offsets, SomePositions)
    text = f'{{"{TOPIC}": "CMgBECI="}}'
    in_base64 = parse(startingOffsets=text, endingOffsets=text)
    assert (in_base64.starting_offsets, in_base64.ending_offsets) == ({TOPIC: "200:34:0"}, {TOPIC: "200:35:0"})
    earliest = "[8,-1,-1,-1,-1,-1,-1,-1,-1,-1,1,16,-1,-1,-1,-1,-1,-1,-1,-1,-1,1]"
    latest = "[8,-1,-1,-1,-1,-1,-1,-1,-1,127,16,-1,-1,-1,-1,-1,-1,-1,-1,127]"
    words = parse(startingOffsets=f'{{"a": {earliest}, "b": {latest}}}').starting_offsets
    assert isinstance(words, dict)
    assert list(words.values()) == ["earliest", "latest"]


def test_times_in_iso_8601() -> None:
    assert parse(startingTime="2024-03-01T01:00:00Z").starting_time == 1_709_254_800_000
    assert parse(startingTime="2024-03-01T02:00:00.250+01:00").starting_time == 1_709_254_800_250
    assert parse(startingTime='{"t": "2024-03-01T01:00:00Z"}').starting_time == {TOPIC: 1_709_254_800_000}
