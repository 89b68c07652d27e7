"""Every command of the retention cookbook by Apache's own `pulsar-admin`: it prints the same on both brokers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.brokers import Broker
from tests.clients.pulsar_admin import Done, run
from tests.conformance.test_namespaces import fresh

NOTHING = ""
BOTH_OR_NONE = "Invalid retention policy: Setting a single time or size limit to 0 is invalid"
QUOTA_SHOWN = (
    "{}    BacklogQuotaImpl(limit=2147483648, limitSize=2147483648, limitTime={}, policy=producer_request_hold)"
)


def retention(minutes: int, size_mb: int) -> str:
    """As `get-retention` prints it."""
    return f'{{\n  "retentionTimeInMinutes" : {minutes},\n  "retentionSizeInMB" : {size_mb}\n}}'


COOKBOOK = (
    ("namespaces get-retention {ns}", "null"),
    ("namespaces set-retention {ns} --size 10G --time 3h", NOTHING),
    ("namespaces get-retention {ns}", retention(180, 10240)),
    ("namespaces set-retention {ns} --size 1T --time -1", NOTHING),
    ("namespaces get-retention {ns}", retention(-1, 1048576)),
    ("namespaces set-retention {ns} --size -1 --time 3h", NOTHING),
    ("namespaces get-retention {ns}", retention(180, -1)),
    ("namespaces set-retention {ns} --size -1 --time -1", NOTHING),
    ("namespaces get-retention {ns}", retention(-1, -1)),
    ("namespaces set-retention {ns} --size 0 --time 0", NOTHING),
    ("namespaces get-retention {ns}", retention(0, 0)),
    ("namespaces set-retention {ns} -s 500M -t 10m", NOTHING),
    ("namespaces get-retention {ns}", retention(10, 500)),
    ("namespaces remove-retention {ns}", NOTHING),
    ("namespaces get-retention {ns}", "null"),
    ("namespaces get-backlog-quotas {ns}", NOTHING),
    ("namespaces set-backlog-quota {ns} --limit 2G --policy producer_request_hold", NOTHING),
    ("namespaces get-backlog-quotas {ns}", QUOTA_SHOWN.format("destination_storage", -1)),
    ("namespaces remove-backlog-quota {ns}", NOTHING),
    ("namespaces get-backlog-quotas {ns}", NOTHING),
    ("namespaces set-backlog-quota {ns} --limitTime 3600 --policy producer_request_hold --type message_age", NOTHING),
    ("namespaces remove-backlog-quota {ns} -t message_age", NOTHING),
    ("namespaces clear-backlog {ns} --force", NOTHING),
    ("namespaces clear-backlog {ns} --sub nobody --force", None),
    ("namespaces clear-backlog {ns} -b 0x00000000_0x40000000 --force", None),
    ("namespaces set-message-ttl {ns} --messageTTL 120", NOTHING),
    ("namespaces get-message-ttl {ns}", "120"),
    ("namespaces set-message-ttl {ns} -ttl 2m", NOTHING),
    ("namespaces get-message-ttl {ns}", "120"),
    ("namespaces remove-message-ttl {ns}", NOTHING),
    ("namespaces get-message-ttl {ns}", "null"),
)
"""Command, and what it prints; None where that is not told by the cookbook."""

BESIDE = (
    ("namespaces set-deduplication {ns} --enable", NOTHING),
    ("namespaces get-deduplication {ns}", "true"),
    ("namespaces remove-deduplication {ns}", NOTHING),
    ("namespaces get-deduplication {ns}", "null"),
    ("namespaces set-compaction-threshold {ns} -t 100M", NOTHING),
    ("namespaces get-compaction-threshold {ns}", "104857600"),
    ("namespaces remove-compaction-threshold {ns}", NOTHING),
    ("namespaces set-subscription-expiration-time {ns} -t 5", NOTHING),
    ("namespaces get-subscription-expiration-time {ns}", "5"),
    ("namespaces remove-subscription-expiration-time {ns}", NOTHING),
    ("namespaces set-persistence {ns} -e 1 -w 1 -a 1 -r 2.0", NOTHING),
    ("namespaces remove-persistence {ns}", NOTHING),
    ("topics create persistent://{ns}/t", NOTHING),
    ("topics create-partitioned-topic persistent://{ns}/p -p 2", NOTHING),
    ("topicPolicies set-retention persistent://{ns}/t -s 10M -t 1h", NOTHING),
    ("topicPolicies get-retention persistent://{ns}/t", retention(60, 10)),
    ("topicPolicies remove-retention persistent://{ns}/t", NOTHING),
    ("topicPolicies set-message-ttl persistent://{ns}/t -t 30", NOTHING),
    ("topicPolicies get-message-ttl persistent://{ns}/t", "30"),
    ("topicPolicies remove-message-ttl persistent://{ns}/t", NOTHING),
    ("topicPolicies get-message-ttl persistent://{ns}/t", "null"),
    ("topicPolicies set-deduplication persistent://{ns}/t --enable", NOTHING),
    ("topicPolicies get-deduplication persistent://{ns}/t", "true"),
    ("topicPolicies set-backlog-quota persistent://{ns}/p -l 2G -p producer_request_hold", NOTHING),
    ("topicPolicies remove-backlog-quota persistent://{ns}/p", NOTHING),
    ("topicPolicies set-retention persistent://{ns}/p -s 10M -t 1h", NOTHING),
    ("topicPolicies get-retention persistent://{ns}/p", retention(60, 10)),
)
"""The other policies, and the same on topics."""

Admin = Callable[[list[str]], list[Done]]


@pytest.fixture
def admin(broker: Broker, tmp_path: Path) -> Admin:
    """Runs commands on the broker under test."""
    return lambda commands: run(broker.admin_url, commands, tmp_path)


def _in_a_namespace(admin: Admin, rows: list[tuple[str, str | None]]) -> list[tuple[Done, str | None]]:
    """Run the commands in a namespace that they make first."""
    namespace = f"{fresh('tenant')}/ns"
    first = [f"tenants create {namespace.partition('/')[0]}", f"namespaces create {namespace}"]
    done = admin(first + [command.format(ns=namespace) for command, _ in rows])
    assert [each.printed for each in done[:2]] == [NOTHING, NOTHING]
    return list(zip(done[2:], [printed for _, printed in rows], strict=True))


@pytest.mark.parametrize("rows", [COOKBOOK, BESIDE], ids=["cookbook", "beside"])
def test_commands_print_what_they_print_on_apache_pulsar(
    admin: Admin, rows: tuple[tuple[str, str | None], ...]
) -> None:
    # covers ADM-71
    for done, printed in _in_a_namespace(admin, list(rows)):
        assert printed is None or done.printed == printed, done.command


def test_refusals_print_their_reason(admin: Admin) -> None:
    # covers RET-1, RET-3, ADM-71 (failure)
    rows: list[tuple[str, str | None]] = [
        ("namespaces set-retention {ns} --size 10M --time 0", BOTH_OR_NONE),
        ("namespaces set-retention {ns} --size 0 --time 3h", BOTH_OR_NONE),
        ("namespaces set-message-ttl {ns} -ttl -1", "Invalid value for message TTL, message TTL must >= 0"),
        ("namespaces get-retention no-such-tenant/ns", "Namespace does not exist"),
        ("namespaces set-retention {ns} -s 10M -t -1", NOTHING),
        (
            "namespaces set-backlog-quota {ns} -l 10M -p producer_request_hold",
            "Backlog Quota exceeds configured retention quota for namespace. Please increase retention quota and retry",
        ),
        ("namespaces set-backlog-quota {ns} -l 9M -p producer_request_hold", NOTHING),
        ("namespaces set-retention {ns} -s 5M -t -1", "Retention Quota must exceed configured backlog quota for name"),
        ("topics stats persistent://{ns}/none", "Topic persistent://"),
        ("tenants create public", "Tenant already exist"),
        ("namespaces create {ns}", "Namespace already exists"),
    ]
    for done, reason in _in_a_namespace(admin, rows):
        if reason == NOTHING:
            assert done.printed == NOTHING, done
        else:
            assert reason is not None
            assert f"Reason: {reason}" in done.printed, done


def test_java_reads_our_answers(admin: Admin) -> None:
    # covers ADM-65, ST-6, ST-8 (as Java's own classes read them)
    rows: list[tuple[str, str | None]] = [
        ("topics create persistent://{ns}/t", None),
        ("topics create-partitioned-topic persistent://{ns}/p -p 2", None),
        ("topics create-subscription persistent://{ns}/t -s sub", None),
        ("namespaces policies {ns}", '"numBundles" : 4'),
        ("topics stats persistent://{ns}/t -gpb", '"msgBacklog" : 0'),
        ("topics stats-internal persistent://{ns}/t", '"state" : "LedgerOpened"'),
        ("topics partitioned-stats persistent://{ns}/p --per-partition", '"partitions" : 2'),
        ("topics get-partitioned-topic-metadata persistent://{ns}/p", '"partitions" : 2'),
        ("topics lookup persistent://{ns}/t", None),
        ("topics bundle-range persistent://{ns}/t", None),
        ("clusters get standalone", '"serviceUrl" : "http://'),
        ("tenants get public", '"allowedClusters" : [ "standalone" ]'),
    ]
    for done, part in _in_a_namespace(admin, rows):
        assert "Reason:" not in done.printed, done
        if part is not None:
            shown = json.loads(done.printed)
            assert part in re.sub(
                r"\[\s*(\"[^\"]*\")\s*\]", r"[ \1 ]", json.dumps(shown, indent=2, separators=(",", " : "))
            )


def test_topics_are_listed_with_system_topics(admin: Admin) -> None:
    # covers ADM-71 (topics list)
    rows: list[tuple[str, str | None]] = [
        ("topics create persistent://{ns}/t", NOTHING),
        ("topics list {ns} --include-system-topic", None),
        ("namespaces topics {ns}", None),
    ]
    done = _in_a_namespace(admin, rows)
    for listed, _ in done[1:]:
        (name,) = [name for name in listed.printed.split() if "/__" not in name]
        assert name.endswith("/ns/t")


@pytest.mark.ours_only("ADM-71: three parts are no namespace; Apache Pulsar refuses them without a word")
def test_a_topic_in_place_of_a_namespace_is_explained(admin: Admin) -> None:
    # covers ADM-71 (the cookbook's slip)
    slip = (
        "namespaces set-backlog-quota {ns}/my-topic --limitTime 3600 --policy producer_request_hold --type message_age"
    )
    ((done, _),) = _in_a_namespace(admin, [(slip, None)])
    assert re.search(r"Reason: .*/my-topic is no namespace", done.printed), done
