"""Options: one table, errors at the call site."""

from __future__ import annotations

import re

import pytest

from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.options import OPTIONS, Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ, BATCH_WRITE, REQUIRED, STREAM_READ, UNSUPPORTED
from spark_pulsar.connector.options.topics import split_pattern

URL = {"service.url": "pulsar://localhost:6650"}


def parse(**options: str) -> Options:
    return parse_options(URL | {name.replace("_", "."): value for name, value in options.items()})


def test_defaults() -> None:
    options = parse(topic="flights")
    assert options.topic == "persistent://public/default/flights"
    assert options.starting_offsets is None
    assert options.max_messages_per_trigger is None
    assert options.fail_on_data_loss is True
    assert options.poll_timeout_ms == 120_000
    assert (options.hashing_scheme, options.compression_type) == ("JavaStringHash", "NONE")


def test_defaults_in_the_table_are_the_ones_in_force() -> None:
    options = parse(topic="t")
    for row in OPTIONS:
        if row.name.startswith("pulsar."):
            continue  # see test_security_options.py
        if row.name == "maxTriggerDelay":
            continue  # a duration, see test_limits_of_micro_batches
        attribute = re.sub(r"(?<!^)(?=[A-Z])", "_", row.name.replace(".", "_")).lower()
        value = getattr(options, attribute)
        if row.default in ("", REQUIRED) or attribute in ("starting_offsets", "ending_offsets"):
            assert value in (None, (), "persistent://public/default/t", URL["service.url"])
        else:
            assert row.default == f"`{str(value).lower() if isinstance(value, bool) else value}`"


def test_names_are_matched_without_case() -> None:
    assert parse_options({"SERVICE.URL": "pulsar://h", "TOPICSPATTERN": "a.*"}).topics_pattern == "a.*"


def test_an_unknown_option_names_near_matches() -> None:
    # covers READ-7
    with pytest.raises(OptionError, match=r"unknown option startingOffset; did you mean startingOffsets"):
        parse(topic="t", startingOffset="earliest")
    with pytest.raises(OptionError, match=r"unknown option frobnicate; docs/connector-options.md lists"):
        parse(topic="t", frobnicate="1")


def test_a_misspelt_setting_of_the_client_names_near_matches() -> None:
    with pytest.raises(OptionError, match=r"unknown option pulsar.client.tlsTrustCertFilePath; did you mean .*CertsF"):
        parse_options(URL | {"pulsar.client.tlsTrustCertFilePath": "/a"})
    with pytest.raises(OptionError, match=r"did you mean pulsar\.client\.authParams or"):
        parse_options(URL | {"pulsar.client.authParam": "x"})


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_options_of_other_connectors_are_named_with_the_alternative(name: str) -> None:
    # covers READ-7
    hint = UNSUPPORTED[name]
    reason = f"option {name} is not supported yet: {hint}"
    with pytest.raises(OptionError, match=re.escape(reason)):
        parse_options(URL | {"topic": "t", name.lower(): "1"})


def test_the_prefix_of_subscriptions() -> None:
    # covers READ-39
    assert parse(topic="t").subscription_prefix == "spark-pulsar-reader"
    for role in ("app", "CN=app,OU=x", "system:serviceaccount:ns:app", "https://issuer/app", "größe"):
        assert parse(topic="t", subscriptionPrefix=f" {role}-spark ").subscription_prefix == f"{role}-spark"
    for bad, reason in (
        ("", "1 to 200"),
        ("a" * 201, "1 to 200"),
        ("a b", "' ' cannot be"),
        ("a\0", "cannot be"),
        ("pulsar.repl-a", "reserved"),
    ):
        with pytest.raises(OptionError, match=f"option subscriptionPrefix = .*{reason}"):
            parse(topic="t", subscriptionPrefix=bad)


def test_no_unsupported_option_is_in_the_table() -> None:
    assert not {row.name.lower() for row in OPTIONS} & {name.lower() for name in UNSUPPORTED}


def test_settings_of_kafka_are_not_passed_on() -> None:
    with pytest.raises(OptionError, match="settings of Kafka's clients are not supported"):
        parse_options(URL | {"kafka.group.id": "x"})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("service.url", "localhost:6650", "expected pulsar://host:port"),
        ("service.url", "pulsar://a:1,pulsar://b:1", "host:port,host:port for several"),
        ("service.url", "pulsar://a:65536", "expected pulsar://host:port"),
        ("service.url", "pulsar://a:1,,b:1", "expected pulsar://host:port"),
        ("service.url", "pulsar://", "expected pulsar://host:port"),
        ("service.url", "http://h:8080", "lookup over HTTP is not supported"),
        ("topic", "a/b", "opic"),
        ("topic", "['a', 'b']", "expected one topic; the option topics names several"),
        ("topics", "['a', 'b']", "names, separated by commas or in a JSON array"),
        ("topics", "[]", "no topic name"),
        ("metadataColumns", '["__partition"', "names, separated by commas or in a JSON array"),
        ("startingOffsets", '{"t":' * 20_000, r"characters\): too many brackets"),
        ("admin.url", "x" * 100_000, r"x… \(100000 characters\): expected http"),
        ("topics", " , ", "no topic name"),
        ("topics", "a,b,a", "more than once: persistent://public/default/a"),
        ("topicsPattern", "a(", "not a regular expression"),
        ("topicsPattern", "non-persistent://public/default/x", "keep nothing"),
        ("topicsPattern", "orders/.*", "expected tenant/namespace/regex"),
        ("topicsPattern", "public/.*/t", "'public/.*' is no tenant/namespace"),
        ("topicsPattern", ".*/default/t", "'.*/default' is no tenant/namespace"),
        ("startingOffsets", '{"t": "1:2", "public/default/t": "1:3"}', "default/t is named more than once"),
        ("endingTime", '{"t": 1, "t": 2}', "default/t is named more than once"),
        ("startingOffsets", "first", "expected earliest, latest or a JSON object"),
        ("startingOffsets", "{}", "at least one"),
        ("startingOffsets", '{"t": [8, 1]}', "'0801' are no message id"),
        ("startingOffsets", '{"t": [8, 1, 16, 300]}', "are not the bytes of a message id"),
        ("startingTime", "2024-03-01T01:00:00", "no offset from UTC"),
        ("startingTime", "yesterday", "a time such as 2024-03-01T01:00:00Z"),
        ("startingOffsets", '{"t": {"0": 23}}', "want ledgerId and entryId"),
        ("startingOffsets", '{"t": 23}', "must be a message id like .*, not int"),
        ("startingOffsets", '{"t": "(1,2,3,4)"}', "message id of partition 3, not one of"),
        ("startingOffsets", '{"t": "1:2:3000000000"}', "batch index must be below"),
        ("startingOffsets", '{"t": "1-2"}', "not a message id"),
        ("endingOffsets", "earliest", "cannot end at earliest"),
        ("endingOffsets", '{"t": "earliest"}', "cannot end at earliest"),
        ("startingTime", "yesterday", "milliseconds since 1970 UTC"),
        ("startingTime", "-1", "milliseconds since 1970 UTC"),
        ("startingTime", str(2**63), "milliseconds since 1970 UTC"),
        ("startingTime", '{"t": 1', "not JSON"),
        ("startingTime", "{}", "at least one"),
        ("endingTime", '{"t": 1.5}', "milliseconds since 1970 UTC"),
        ("endingTime", '{"t": true}', "milliseconds since 1970 UTC"),
        ("endingTime", '{"a/b": 1}', "opic"),
        ("subscriptionName", "", "empty name"),
        ("maxMessagesPerTrigger", "0", "from 1 to"),
        ("maxMessagesPerTrigger", "1e3", "whole number"),
        ("failOnDataLoss", "yes", "true or false"),
        ("pollTimeoutMs", "-5", "whole number"),
        ("compressionType", "GZIP", "one of NONE, LZ4, ZLIB, ZSTD, SNAPPY"),
        ("hashingScheme", "Fnv", "one of JavaStringHash, Murmur3_32Hash, BoostHash"),
        ("messageRoutingMode", "CustomPartition", "one of RoundRobinPartition, SinglePartition"),
        ("batchingMaxBytes", str(6 * 1024 * 1024), "whole number"),
    ],
)
def test_a_bad_value_names_the_option_and_what_is_expected(name: str, value: str, reason: str) -> None:
    with pytest.raises(OptionError, match=f"option {re.escape(name)} = .*{reason}"):
        parse_options(URL | {name: value})


def test_values_are_read_without_case_where_they_are_words() -> None:
    options = parse(topic="t", startingOffsets="Earliest", compressionType="zstd", failOnDataLoss="FALSE")
    assert options.starting_offsets == "earliest"
    assert options.compression_type == "ZSTD"
    assert options.fail_on_data_loss is False


@pytest.mark.parametrize(
    ("pattern", "namespace", "local"),
    [
        ("orders-.*", "public/default", "orders-.*"),
        ("orders-[^/]+", "public/default", "orders-[^/]+"),
        ("[^/]+-[^/]+-[^/]+", "public/default", "[^/]+-[^/]+-[^/]+"),
        ("persistent://t-1/n.2/[^/]+", "t-1/n.2", "[^/]+"),
    ],
)
def test_a_slash_inside_of_a_pattern_separates_nothing(pattern: str, namespace: str, local: str) -> None:
    assert split_pattern(pattern) == (namespace, re.compile(local))
    assert parse(topicsPattern=pattern).topics_pattern == pattern


def test_positions_take_short_and_full_topic_names() -> None:
    options = parse(topic="t", startingOffsets='{"t": "3:4:-1:-1", "t/n/u-partition-2": "latest"}')
    assert options.starting_offsets == {
        "persistent://public/default/t": "3:4:0",
        "persistent://t/n/u-partition-2": "latest",
    }


def test_times_are_one_for_all_partitions_or_one_for_each() -> None:
    options = parse(topic="t", startingTime=" 1764288000000 ", endingTime='{"t": 1764288000001, "t/n/u": "5"}')
    assert options.starting_time == 1_764_288_000_000
    assert options.ending_time == {"persistent://public/default/t": 1_764_288_000_001, "persistent://t/n/u": 5}
    assert parse(topic="t").starting_time is None


def test_times_and_offsets_exclude_each_other() -> None:
    with pytest.raises(OptionError, match="startingOffsets and startingTime contradict"):
        parse(topic="t", startingTime="1", startingOffsets="earliest")
    with pytest.raises(OptionError, match="endingOffsets and endingTime contradict"):
        parse(topic="t", endingTime="1", endingOffsets="latest")
    parse(topic="t", startingTime="1", endingOffsets="latest").for_read(BATCH_READ)
    stream = parse(topic="t", endingTime="1").for_read(STREAM_READ)
    assert (stream.ending_time, stream.without_effect) == (None, {"endingTime": "it is for batch read"})
    with pytest.raises(OptionError, match="endingTime = 1 lies before startingTime = 2"):
        parse(topic="t", startingTime="2", endingTime="1").for_read(BATCH_READ)
    parse(topic="t", startingTime='{"t": 2}', endingTime='{"t": 2}').for_read(BATCH_READ)
    for start, end in ("2", '{"t": 1}'), ('{"t": 2}', "1"), ('{"t": 2, "u": 0}', '{"t": 1, "u": 9}'):
        with pytest.raises(OptionError, match="endingTime = 1 lies before startingTime = 2 for persistent:"):
            parse(topic="t", startingTime=start, endingTime=end).for_read(BATCH_READ)


def test_service_url_is_required_and_may_list_hosts() -> None:
    with pytest.raises(OptionError, match=r"service.url is required"):
        parse_options({"topic": "t"})
    assert parse_options({"service.url": "pulsar://a:1,b:2,c"}).service_url == "pulsar://a:1,b:2,c"
    assert parse_options({"service.url": "pulsar://a:1, [::1]:2,[fe80::1]/"}).service_url == (
        "pulsar://a:1,[::1]:2,[fe80::1]"
    )


def test_topic_options_exclude_each_other() -> None:
    with pytest.raises(OptionError, match="topic and topicsPattern contradict"):
        parse(topic="a", topicsPattern="b")


def test_path_is_short_for_topic_unless_spark_put_a_directory_there() -> None:
    assert parse(path="flights").topic == "persistent://public/default/flights"
    assert parse(path="file:/warehouse/x", topic="t").topic == "persistent://public/default/t"
    assert parse(path="/warehouse/x").topic is None
    assert parse(path="hdfs://host/warehouse/x", topics="t").topics == ("persistent://public/default/t",)
    assert parse(path="persistent://t/n/x").topic == "persistent://t/n/x"
    for directory in ("dbfs:/user/hive/warehouse/x", "hdfs:/warehouse/x", "file:x", "s3a://bucket/x", ""):
        assert parse(path=directory, topic="t").topic == "persistent://public/default/t"
        assert parse(path=directory, topicsPattern=".*").topic is None
    with pytest.raises(OptionError, match="path 'flights' and the option topicsPattern contradict each other"):
        parse(path="flights", topicsPattern=".*")


def test_options_have_their_place() -> None:
    with pytest.raises(OptionError, match="endingOffsets is for batch read only, not for stream read"):
        parse(topic="t", endingOffsets="latest").for_read(STREAM_READ)
    with pytest.raises(OptionError, match="maxMessagesPerTrigger is for stream read only, not for batch read"):
        parse(topic="t", maxMessagesPerTrigger="5").for_read(BATCH_READ)
    with pytest.raises(OptionError, match="is for batch read and stream read only, not for batch write"):
        parse(topics="t").for_write(BATCH_WRITE)
    with pytest.raises(OptionError, match="no sense for a batch read"):
        parse(topic="t", startingOffsets="latest").for_read(BATCH_READ)
    with pytest.raises(OptionError, match="one of the options topic, topics, topicsPattern"):
        parse().for_read(STREAM_READ)
    assert parse().for_write(BATCH_WRITE).topic is None


def test_non_persistent_topics_are_written_but_not_read() -> None:
    options = parse(topics="a,non-persistent://public/default/b")
    with pytest.raises(OptionError, match="non-persistent://public/default/b cannot be read: a non-persistent topic"):
        options.check_topics_to_read()
    with pytest.raises(OptionError, match="cannot be read"):
        parse(topic="non-persistent://public/default/b").for_read(STREAM_READ)
    assert parse(topic="non-persistent://public/default/b").for_write(BATCH_WRITE).topic is not None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "DEADLETTER"}, "mode DEADLETTER needs the option deadLetterTopic"),
        (
            {"mode": "FAILFAST", "columnNameOfCorruptRecord": "bad"},
            "option columnNameOfCorruptRecord is for mode PERMISSIVE only, and mode is FAILFAST",
        ),
        ({"deadLetterTopic": "dl"}, "option deadLetterTopic is for mode DEADLETTER only, and mode is FAILFAST"),
        (
            {"schemaEvolutionMode": "rescue", "useTopicSchema": "false"},
            "option schemaEvolutionMode and useTopicSchema = false contradict each other",
        ),
        (
            {"rescuedDataColumn": "rest", "useTopicSchema": "false"},
            "option rescuedDataColumn and useTopicSchema = false contradict each other",
        ),
        (
            {"rescuedDataColumn": "_corrupt_record", "mode": "PERMISSIVE"},
            "rescuedDataColumn and columnNameOfCorruptRecord are both _corrupt_record: name two columns",
        ),
        ({"schemaEvolutionMode": "restart"}, "expected one of none, rescue, failOnNewColumns, addNewColumns"),
        ({"rescuedDataColumn": "__rest"}, "names that begin with __ are the connector's own"),
        (
            {"mode": "PERMISSIVE", "deadLetterTopic": "dl"},
            "option deadLetterTopic is for mode DEADLETTER only, and mode is PERMISSIVE",
        ),
        (
            {"mode": "PERMISSIVE", "useTopicSchema": "false"},
            "mode PERMISSIVE and useTopicSchema = false contradict each other",
        ),
        (
            {"mode": "DEADLETTER", "deadLetterTopic": "t-partition-0"},
            "deadLetterTopic persistent://public/default/t is one of the topics to read",
        ),
        ({"mode": "DROPMALFORMED"}, "one of FAILFAST, PERMISSIVE, DEADLETTER"),
        ({"mode": "DEADLETTER", "deadLetterTopic": "non-persistent://public/default/dl"}, "deadLetterTopic"),
    ],
)
def test_what_belongs_to_a_mode_comes_with_it(options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=re.escape(told)):
        parse(topic="t", **options).for_read(BATCH_READ)


def test_a_pattern_may_not_match_the_dead_letter_topic() -> None:
    options = {"topicsPattern": "flights.*", "mode": "DEADLETTER"}
    with pytest.raises(OptionError, match=r"flights-dead is one of the topics to read"):
        parse(deadLetterTopic="flights-dead", **options).for_read(STREAM_READ)
    assert parse(deadLetterTopic="dead-flights", **options).for_read(STREAM_READ).decode_mode.mode == "DEADLETTER"


def test_modes_add_their_columns() -> None:
    assert parse(topic="t").decode_mode.columns() == ()
    assert parse(topic="t", mode="deadletter", deadLetterTopic="dl").decode_mode.columns() == ()
    found = parse(topic="t", mode="permissive", columnNameOfCorruptRecord="bad").for_read(STREAM_READ).decode_mode
    assert list(found.columns()) == [("bad", "binary"), ("__error", "string")]


def test_rescued_data_has_its_column_where_it_may_be_needed() -> None:
    # covers SCHEMA-20
    def columns(**options: str) -> tuple[tuple[str, str], ...]:
        return parse(topic="t", **options).for_read(STREAM_READ).decode_mode.columns()

    assert columns() == columns(schemaEvolutionMode="NONE") == columns(schemaEvolutionMode="failonnewcolumns") == ()
    assert columns(schemaEvolutionMode="rescue") == columns(schemaEvolutionMode="addNewColumns")
    assert columns(schemaEvolutionMode="rescue") == (("_rescued_data", "string"),)
    assert columns(rescuedDataColumn="rest") == (("rest", "string"),)
    assert columns(rescuedDataColumn="rest", schemaEvolutionMode="failOnNewColumns") == (("rest", "string"),)
    assert [name for name, _ in columns(schemaEvolutionMode="rescue", mode="PERMISSIVE")] == [
        "_corrupt_record",
        "__error",
        "_rescued_data",
    ]


def test_limits_of_micro_batches() -> None:
    limited = parse(topic="t", maxBytesPerTrigger="4096", minMessagesPerTrigger="5", maxTriggerDelay="2 min")
    limited.for_read(STREAM_READ)
    limits = limited.max_bytes_per_trigger, limited.min_messages_per_trigger, limited.max_trigger_delay_ms
    assert limits == (4096, 5, 120_000)
    assert parse(topic="t", maxBytesPerTrigger="0").max_bytes_per_trigger is None
    assert parse(topic="t").max_trigger_delay_ms == 15 * 60_000
    with pytest.raises(OptionError, match="9 is more than maxMessagesPerTrigger = 8"):
        parse(topic="t", minMessagesPerTrigger="9", maxMessagesPerTrigger="8").for_read(STREAM_READ)
    with pytest.raises(OptionError, match="maxTriggerDelay needs minMessagesPerTrigger"):
        parse(topic="t", maxTriggerDelay="1s").for_read(STREAM_READ)
    for text in ("soon", "15 moons", "-1s", ""):
        with pytest.raises(OptionError, match="expected a duration such as 15m"):
            parse(topic="t", minMessagesPerTrigger="1", maxTriggerDelay=text)


def test_retry_letters_belong_to_a_subscription_and_are_topics_of_their_own() -> None:
    base = {"service.url": "pulsar://h:1", "topics": "a,b-partition-1", "enableRetry": "true"}
    options = parse_options({**base, "subscriptionName": "s"}).for_read(STREAM_READ)
    start = "persistent://public/default/"
    assert options.retry_letter_topics == (f"{start}a-s-RETRY", f"{start}b-s-RETRY")
    named = parse_options({**base, "subscriptionName": "s", "retryLetterTopic": "r"}).for_read(STREAM_READ)
    assert named.retry_letter_topics == (f"{start}r",)
    for more, reason in (
        ({}, "enableRetry needs the option subscriptionName"),
        ({"subscriptionName": "s", "retryLetterTopic": "b"}, "is one of the topics to read"),
        ({"enableRetry": "false", "retryLetterTopic": "r"}, "retryLetterTopic is for enableRetry = true only"),
        ({"subscriptionName": "s", "mode": "DEADLETTER", "deadLetterTopic": "a-s-RETRY"}, "is the retry letter topic"),
    ):
        with pytest.raises(OptionError, match=reason):
            parse_options(base | more).for_read(STREAM_READ)
    pattern = {"service.url": "pulsar://h:1", "topicsPattern": "x.*", "subscriptionName": "s", "enableRetry": "true"}
    with pytest.raises(OptionError, match="need the option retryLetterTopic"):
        parse_options(pattern).for_read(STREAM_READ)
    with pytest.raises(OptionError, match="enableRetry is for stream read only"):
        parse_options(base).for_read(BATCH_READ)


def test_names_of_kafka_that_mean_the_same() -> None:
    # covers READ-21
    kafka = parse(
        subscribe="a, b",
        startingOffsetsByTimestamp='{"a": {"0": 5, "1": 6}}',
        startingOffsetsByTimestampStrategy="latest",
        maxOffsetsPerTrigger="20",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="1m",
        minPartitions="4",
        maxRecordsPerPartition="7",
        includeHeaders="false",
    ).for_read(STREAM_READ)
    ours = parse(
        topics="a,b",
        startingTime='{"a-partition-0": 5, "a-partition-1": 6}',
        startingOffsetsByTimestampStrategy="latest",
        maxMessagesPerTrigger="20",
        minMessagesPerTrigger="10",
        maxTriggerDelay="1m",
        minPartitions="4",
        maxRecordsPerPartition="7",
    )
    assert kafka == ours
    batch = parse(assign='{"a": [0, 2]}', startingTimestamp="1", endingTimestamp="2").for_read(BATCH_READ)
    assert batch == parse(topics="a-partition-0,a-partition-2", startingTime="1", endingTime="2")
    assert parse(subscribePattern="a.*", endingOffsetsByTimestamp='{"a": {"0": 5}}').topics_pattern == "a.*"


def test_what_a_streamnative_job_sets_besides() -> None:
    # covers READ-21
    raw = URL | {"topic": "t", "admin.url": "http://localhost:8080/"}
    assert parse_options(raw).admin_url == "http://localhost:8080"
    for use in (BATCH_READ, STREAM_READ):
        assert parse_options(raw).for_read(use)
    with pytest.raises(OptionError, match=r"admin.url = 'pulsar://h:6650': expected http://host:port"):
        parse_options(raw | {"admin.url": "pulsar://h:6650"})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"maxOffsetsPerTrigger": "1", "maxMessagesPerTrigger": "2"},
            "maxMessagesPerTrigger and maxOffsetsPerTrigger say the same thing",
        ),
        ({"subscribe": "t", "assign": '{"t": [0]}'}, "assign and subscribe say the same thing"),
        ({"subscribe": "t", "topicsPattern": "t"}, "options subscribe and topicsPattern contradict each other"),
        ({"subscribe": "t", "path": "t"}, "the path 't' and the option subscribe contradict each other"),
        ({"maxOffsetsPerTrigger": "many"}, "option maxOffsetsPerTrigger = 'many': expected a whole number"),
        ({"startingTimestamp": "now"}, "option startingTimestamp = 'now': expected milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "fail"}, "TimestampStrategy = 'fail': expected one of latest, error"),
        ({"includeHeaders": "true"}, "option includeHeaders = 'true': leave it out: __messageProperties"),
        ({"assign": "[1]"}, "option assign = .*expected a JSON object such as"),
        ({"assign": '{"t": 1}'}, "expected a list of partitions of t"),
        ({"assign": '{"t": [true]}'}, "True is no partition of t"),
        ({"assign": '{"a/b": [1]}'}, "option assign = .*a/b"),
        ({"startingOffsetsByTimestamp": "{"}, "option startingOffsetsByTimestamp = .*not JSON"),
        ({"endingOffsetsByTimestamp": '{"t": 5}'}, "expected an object of partition to milliseconds for t"),
    ],
)
def test_names_of_kafka_told_in_errors(options: dict[str, str], told: str) -> None:
    # covers READ-21
    with pytest.raises(OptionError, match=f"(?i){told}"):
        parse_options(URL | options)


def test_a_start_is_said_once() -> None:
    predefined = parse(topic="t", predefinedSubscription="s", startingOffsets="earliest").for_read(STREAM_READ)
    assert (predefined.subscription_name, predefined.predefined_subscription) == ("s", "s")
    assert predefined.starts_at_cursor
    with pytest.raises(OptionError, match="subscriptionName and predefinedSubscription contradict"):
        parse(topic="t", predefinedSubscription="s", subscriptionName="s")
    for placed in ({"startingTime": "5"}, {"startingOffsets": '{"t": "latest"}'}):
        options = parse(topic="t", predefinedSubscription="s", **placed).for_read(STREAM_READ)
        assert (options.subscription_name, options.starts_at_cursor) == ("s", False)


@pytest.mark.parametrize(
    ("spelling", "position"),
    [
        ('"3:4:2:5"', "3:4:5"),
        ('"3:4:2:-1"', "3:4:0"),
        ('"3:4"', "3:4:0"),
        ('"3:4:1"', "3:4:1"),
        ('"3:4:-1"', "3:4:0"),
        ('"(3,4,2,5)"', "3:4:5"),
        ('{"ledgerId": 3, "entryId": 4, "partitionIndex": 2, "batchIndex": 5}', "3:4:5"),
        ('"-1:-1:-1:-1"', "earliest"),
        ('"(9223372036854775807,9223372036854775807,-1,-1)"', "latest"),
    ],
)
def test_a_message_id_in_any_spelling_is_a_start(spelling: str, position: str) -> None:
    # covers OFFSET-16
    options = parse(topic="u", startingOffsets=f'{{"u-partition-2": {spelling}}}')
    assert options.starting_offsets == {"persistent://public/default/u-partition-2": position}


def test_three_numbers_that_may_be_a_message_id_of_the_java_client_are_told(caplog: pytest.LogCaptureFixture) -> None:
    # covers OFFSET-16
    options = parse(topic="u", startingOffsets='{"u-partition-2": "3:4:2", "u-partition-1": "3:4:2"}')
    assert set(options.starting_offsets.values()) == {"3:4:2"}  # type: ignore[union-attr]
    [told] = caplog.messages
    assert "'3:4:2' of persistent://public/default/u-partition-2 is read as index 2 in a batch: 3:4:2:2" in told
    assert told.endswith("as a message id of this partition it is 3:4:2:-1")


# ---- tables of Spark's catalog, whose options are lost


SERVICE_URL = "pulsar://h:6650"


def refusal(raw: dict[str, str]) -> str:
    with pytest.raises(OptionError) as refused:
        parse_options(raw)
    return str(refused.value)


def test_a_table_without_columns_is_answered_with_its_view() -> None:
    # covers READ-28
    table = {"provider": "pulsar", "owner": "me", "option.topic": "it's", "service.url": SERVICE_URL, "topic": "it's"}
    assert refusal(table).endswith(
        r"use a view: CREATE TEMPORARY VIEW flights USING pulsar OPTIONS "
        rf"(`service.url` '{SERVICE_URL}', `topic` 'it\'s')"
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
