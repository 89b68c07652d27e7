"""`spark-pulsar admin namespaces` and `topics`: offloading and replication, which this broker keeps the
policies of."""

from typing import Final

from spark_pulsar.cli.admin.command import rows
from spark_pulsar.model.policies.policy_columns import Option, Written, flag
from spark_pulsar.model.policies.policy_kinds import SWITCH

_NAMESPACE: Final = "/admin/v2/namespaces/{namespace}"
_TOPIC: Final = "/admin/v2/{topic}"

_namespaces: Final = rows("namespaces", "/admin/v2/namespaces/{namespace}")
_topic: Final = rows("topics", "/admin/v2/{topic}")
_subscription: Final = rows("topics", "/admin/v2/{topic}/subscription/{subscription}")
_topic_policies: Final = rows("topicPolicies", "/admin/v2/{topic}")

COMMANDS: Final = (
    _namespaces(
        "set-offload-threshold",
        "PUT /offloadThreshold",
        "Set the size of a topic from which old ledgers are to be moved; -1 is never.",
        body=(Option("", "--size -s", Written.BYTES, "10M, 16G."),),
    ),
    _namespaces("get-offload-threshold", "GET /offloadThreshold", "Show the size; -1 is never."),
    _namespaces(
        "set-offload-threshold-in-seconds",
        "PUT /offloadThresholdInSeconds",
        "Set the age from which old ledgers are to be moved; -1 is never.",
        body=(Option("", "--time -t", Written.SECONDS, "10m, 3h."),),
    ),
    _namespaces(
        "get-offload-threshold-in-seconds", "GET /offloadThresholdInSeconds", "Show the age in seconds; -1 is never."
    ),
    _namespaces(
        "set-offload-deletion-lag",
        "PUT /offloadDeletionLagMs",
        "Set how long a moved ledger is kept here, too.",
        body=(Option("", "--lag -l", Written.MILLISECONDS, "10m, 5h, 3d."),),
    ),
    _namespaces(
        "get-offload-deletion-lag", "GET /offloadDeletionLagMs", "Show it in milliseconds; null when it is not set."
    ),
    _namespaces("clear-offload-deletion-lag", "DELETE /offloadDeletionLagMs", "Remove the time."),
    _namespaces(
        "update-migration-state",
        "POST /migration",
        "Mark a namespace as moved to another cluster, or not.",
        body=(flag("", "--migrated", "Moved; without it, not moved."),),
    ),
    _topic(
        "offload",
        "PUT /offload",
        "Move ledgers before a message: nothing happens without other storage.",
        body=(Option("ledgerId", "--ledger", help="Of the message."), Option("entryId", "--entry", help="Of it.")),
    ),
    _topic("offload-status", "GET /offload", "Show the state of offloading: NOT_RUN."),
    _subscription(
        "set-replicated-subscription-status",
        "POST /replicatedSubscriptionStatus",
        "Replicate a subscription to other clusters, or not; one node can only not.",
        body=(SWITCH,),
    ),
    _subscription(
        "get-replicated-subscription-status",
        "GET /replicatedSubscriptionStatus",
        "Show for each partition whether a subscription is replicated.",
    ),
    _topic_policies("delete", "DELETE /policies", "Remove all policies of a topic."),
)
