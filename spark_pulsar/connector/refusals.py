"""Refusals of a broker by a policy or a permission, with what the user can do about them.

A broker says which rule it keeps, in words that assume its administrator. The table here adds the policy's name, the
command that changes it and the option that avoids it (READ-39, READ-40, SINK-14).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from spark_pulsar.model.errors import PulsarError

_EXCEPTION: Final = re.compile(r"(?:\w+\.)+\w*(?:\$\w+)?(?:Exception|Error): ")
_TWICE: Final = re.compile(r"(.{8,}?) caused by \1", re.DOTALL)
_MOST_TEXT: Final = 1_000


class Cure(NamedTuple):
    """Advice for refusals whose text matches a pattern; groups of the pattern can stand in it."""

    refusal: re.Pattern[str]
    advice: str


def _cure(refusal: str, advice: str) -> Cure:
    return Cure(re.compile(refusal), advice)


_LEVELS: Final = "of the topic, of its namespace or of the broker"
_CURES: Final = (
    _cure(
        r"needs to be prefixed by the authentication role, like (?P<role>.+)-xxxx",
        "the policy subscriptionAuthMode of the namespace is Prefix: set the option subscriptionPrefix to a text that "
        "begins with {role}, such as {role}-spark; subscriptionName and predefinedSubscription must begin with it, too",
    ),
    _cure(
        r"doesn't support (?P<type>\w+) sub type",
        f"the policy subscriptionTypesEnabled {_LEVELS} forbids {{type}}, which durable subscriptions of the connector "
        "need (subscriptionName, predefinedSubscription, the log of transactional writes): leave the option out, give "
        "transactionTopic in another namespace, or pulsar-admin namespaces set-subscription-types-enabled "
        "TENANT/NAMESPACE --types Exclusive,…, for one topic pulsar-admin topicPolicies "
        "set-subscription-types-enabled, for all subscriptionTypesEnabled in broker.conf",
    ),
    _cure(
        r"readCompacted only allowed on failover or exclusive",
        f"the policy subscriptionTypesEnabled {_LEVELS} forbids both: leave out readCompacted, or pulsar-admin "
        "namespaces set-subscription-types-enabled TENANT/NAMESPACE --types Shared,Failover",
    ),
    _cure(
        r"not authorized to GetTopicsOfNamespace",
        "topicsPattern lists the topics of a namespace, which needs the permission consume or produce on the whole "
        "namespace: pulsar-admin namespaces grant-permission TENANT/NAMESPACE --role ROLE --actions consume; a role "
        "with permissions on single topics names them with the option topics",
    ),
    _cure(
        r"transaction_coordinator_assign.*not authorized",
        "transactions need permissions on the system's namespace: pulsar-admin namespaces grant-permission "
        "pulsar/system --role ROLE --actions produce,consume",
    ),
    _cure(
        r"not authorized to Produce",
        "writing needs the permission produce: pulsar-admin namespaces grant-permission TENANT/NAMESPACE --role ROLE "
        "--actions produce, or for one topic pulsar-admin topics grant-permission",
    ),
    _cure(
        r"not authorized to subscribe",
        "reading, and the log of deliveryGuarantee transactional, need the permission consume: pulsar-admin namespaces "
        "grant-permission TENANT/NAMESPACE --role ROLE --actions consume, or for one topic pulsar-admin topics "
        "grant-permission",
    ),
    _cure(
        r"not authorized to",
        "reading needs the permission consume, writing produce: pulsar-admin namespaces grant-permission "
        "TENANT/NAMESPACE --role ROLE --actions consume,produce, or for one topic pulsar-admin topics grant-permission",
    ),
    _cure(
        r"maximum number of subscriptions",
        f"the policy maxSubscriptionsPerTopic {_LEVELS} counts readers, too: raise it with pulsar-admin namespaces "
        "set-max-subscriptions-per-topic or pulsar-admin topicPolicies set-max-subscriptions-per-topic, or delete "
        "subscriptions that are not needed (pulsar-admin topics subscriptions)",
    ),
    _cure(
        r"Topic reached max consumers limit",
        f"the policy maxConsumersPerTopic {_LEVELS} counts readers, too; a query has up to three at a time for each "
        "partition, and one for each task that minPartitions or maxRecordsPerPartition make: raise it with "
        "pulsar-admin namespaces set-max-consumers-per-topic",
    ),
    _cure(
        r"reached max producers limit",
        f"the policy maxProducersPerTopic {_LEVELS} allows fewer producers than there are tasks that write: raise it "
        "with pulsar-admin namespaces set-max-producers-per-topic, or write with fewer tasks (df.coalesce)",
    ),
    _cure(
        r"Subscription does not exist",
        "the policy autoSubscriptionCreation of the namespace (allowAutoSubscriptionCreation in broker.conf) lets no "
        "client create subscriptions: create it with pulsar-admin topics create-subscription -s NAME TOPIC before the "
        "query starts",
    ),
    _cure(
        r"maximum number of topics in namespace",
        "the policy maxTopicsPerNamespace of the namespace or of the broker: raise it with pulsar-admin namespaces "
        "set-max-topics-per-namespace, or delete topics that are not needed",
    ),
    _cure(
        r"schema auto updating is disabled",
        "the policy isAllowAutoUpdateSchema of the namespace or of the broker lets clients add no schema: upload it "
        "with pulsar-admin schemas upload, or allow it with pulsar-admin namespaces set-is-allow-auto-update-schema "
        "--enable TENANT/NAMESPACE",
    ),
    _cure(
        r"SchemaValidationEnforced",
        "the policy schemaValidationEnforced of the namespace or of the broker, and the topic has a schema: set the "
        "option schemaType, such as AVRO or JSON for a record of the columns",
    ),
    _cure(
        r"strategy ALWAYS_INCOMPATIBLE",
        "the policy schemaCompatibilityStrategy lets the topic's schema never change: write columns of that schema, or "
        "pulsar-admin namespaces set-schema-compatibility-strategy --compatibility FULL TENANT/NAMESPACE",
    ),
    _cure(
        r"missing local cluster name in clusters list",
        "the policy replication_clusters of the namespace leaves out the cluster of service.url: connect to one of its "
        "clusters, or pulsar-admin namespaces set-clusters --clusters … TENANT/NAMESPACE",
    ),
    _cure(
        r"Encryption is required",
        "the policy encryptionRequired of the namespace: give the options encryptionKeys and encryptionPublicKeys",
    ),
    _cure(r"already terminated", "a topic that was terminated accepts no messages any more: write to another one"),
    _cure(
        r"backlog quota exceeded",
        "a subscription of the topic has more backlog than the policy backlogQuota allows: consume it, delete the "
        "subscription, or pulsar-admin namespaces set-backlog-quota",
    ),
    _cure(
        r"Namespace not found",
        "create it with pulsar-admin namespaces create TENANT/NAMESPACE, or correct the name",
    ),
    _cure(
        r"(?i)topic .*not found|TopicNotFound",
        "create it with pulsar-admin topics create TOPIC, correct the name, or let clients create topics "
        "(allowAutoTopicCreation in broker.conf, the policy autoTopicCreation of the namespace); "
        "waitingForNonExistedTopic lets a read wait for it",
    ),
)


def with_cure(error: Exception) -> Exception:
    """Returns the refusal with what the user can do about it, or the error itself where nothing is known."""
    if not isinstance(error, PulsarError) or len(error.args) != 1:
        return error
    text = plain(error.message)
    cure = next((cure for cure in _CURES if cure.refusal.search(text)), None)
    if cure is None or cure.advice[:40] in text:
        return error
    match = cure.refusal.search(text)
    assert match is not None
    advice = cure.advice.format_map(match.groupdict())
    shown = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
    cured = type(error)(f"{shown}: {advice}")
    cured.__cause__ = error
    return cured


def plain(text: str) -> str:
    """Returns a broker's text without the names of Java's exceptions, and without repetitions."""
    return _TWICE.sub(r"\1", _EXCEPTION.sub("", text)).strip()
