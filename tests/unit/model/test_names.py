"""Topic names. Covers TN-1, TN-2, TN-3, TN-4, TN-5."""

import pytest

from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import TopicName, check_entity, split_namespace


@pytest.mark.parametrize(
    ("text", "full"),
    [
        # covers TN-1, TN-2
        ("a", "persistent://public/default/a"),
        ("t/n/a", "persistent://t/n/a"),
        ("persistent://t/n/a", "persistent://t/n/a"),
        ("non-persistent://t/n/a", "non-persistent://t/n/a"),
        # covers TN-4: tenants and namespaces are narrow, local names are wide
        ("persistent://A-z_9/=:./x:y", "persistent://A-z_9/=:./x:y"),
        ("persistent://t/n/a b", "persistent://t/n/a b"),
        ("persistent://t/n/ü", "persistent://t/n/ü"),
        ("persistent://t/n/a%2Fb", "persistent://t/n/a%2Fb"),
        ("persistent://T/n/a", "persistent://T/n/a"),
    ],
)
def test_accepted(text: str, full: str) -> None:
    name = TopicName.parse(text)
    assert name.full == str(name) == full
    assert TopicName.parse(full) == name


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("foo://a/b/c", "domain"),  # covers TN-1
        ("://a/b/c", "domain"),
        ("Persistent://a/b/c", "domain"),
        ("n/a", "want"),  # covers TN-2
        ("t/c/n/a", "want"),
        ("persistent://a", "want"),
        ("persistent://a/b", "want"),
        ("persistent://t/c/n/a", "v1"),  # covers TN-3
        ("persistent://t/c/n/a/b", "want"),
        ("persistent://a b/n/t", "Invalid topic name: Invalid named entity: a b"),  # covers TN-4
        ("persistent://t/ü/a", "Invalid named entity"),
        ("persistent:///n/a", "Invalid named entity"),
        ("persistent://t//a", "Invalid named entity"),
        ("persistent://t\n/n/a", "Invalid named entity"),
        ("persistent://t/n/", "blank"),
        ("persistent://t/n/  ", "blank"),
        ("", "blank"),
    ],
)
def test_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidTopicName, match=why):
        TopicName.parse(text)


@pytest.mark.parametrize(
    ("local", "base", "partition"),
    [
        # covers TN-5
        ("T-partition-1", "T", 1),
        ("T-partition-0", "T", 0),
        ("T-partition-00", "T-partition-00", -1),
        ("T-partition-01", "T-partition-01", -1),
        ("T-partition-x-3", "T-partition-x-3", -1),
        ("T-partition-2147483647", "T", 2**31 - 1),
        ("T-partition-2147483648", "T-partition-2147483648", -1),
        ("T-partition-" + "9" * 5000, "T-partition-" + "9" * 5000, -1),
        ("T-partition-x", "T-partition-x", -1),
        ("T-partition-", "T-partition-", -1),
        ("T-partition--1", "T-partition--1", -1),
        ("T-partition-1-x", "T-partition-1-x", -1),
        ("T-partition-٣", "T-partition-٣", -1),
        ("-partition-1", "-partition-1", -1),
        ("T", "T", -1),
        ("T-partition-1-partition-2", "T-partition-1", 2),
        ("T\n-partition-2", "T\n", 2),
    ],
)
def test_partitions(local: str, base: str, partition: int) -> None:
    name = TopicName.parse(f"persistent://t/n/{local}")
    assert name.partition == partition
    assert name.base.local == base
    assert name == (name.base if partition < 0 else name.base.at_partition(partition))


def test_at_partition() -> None:
    name = TopicName.parse("non-persistent://t/n/T")
    assert name.at_partition(3).full == "non-persistent://t/n/T-partition-3"
    assert name.at_partition(3).base == name
    assert not name.is_persistent
    assert name.namespace_name == "t/n"
    with pytest.raises(InvalidTopicName):
        name.at_partition(-1)


@pytest.mark.parametrize(
    ("text", "is_system", "is_hidden"),
    [
        ("persistent://public/default/__change_events", True, True),
        ("persistent://public/default/__change_events-partition-2", True, True),
        ("persistent://public/default/__transaction_buffer_snapshot", True, True),
        ("persistent://public/default/orders__transaction_pending_ack", True, True),
        ("persistent://pulsar/system/transaction_coordinator_assign-partition-0", True, True),
        ("persistent://pulsar/system/__transaction_log_3", True, True),
        ("non-persistent://pulsar/system/resource-usage", True, True),
        ("persistent://public/default/__mine", False, True),
        ("persistent://public/default/mine__", False, False),
        ("persistent://pulsar/other/a", False, False),
    ],
)
def test_system_topics(text: str, is_system: bool, is_hidden: bool) -> None:
    name = TopicName.parse(text)
    assert (name.is_system, name.is_hidden) == (is_system, is_hidden)


def test_namespaces() -> None:
    assert split_namespace("public/default") == ("public", "default")
    check_entity("a")
    for text in ("public", "public/", "/default", "a/b/c", "a b/c"):
        with pytest.raises(InvalidTopicName):
            split_namespace(text)


def test_names_are_values() -> None:
    first, second = TopicName.parse("a"), TopicName.parse("persistent://public/default/a")
    assert first == second
    assert len({first, second}) == 1
    with pytest.raises(AttributeError):
        first.local = "b"  # type: ignore[misc]
