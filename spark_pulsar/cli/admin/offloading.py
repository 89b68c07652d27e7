"""`spark-pulsar admin namespaces` and `topics`: offloading and replication, which this broker keeps the
policies of."""

from typing import Final

from spark_pulsar.cli.admin.command import Command
from spark_pulsar.model.policies.policy_columns import Option, Written
from spark_pulsar.model.policies.policy_kinds import SWITCH

_NAMESPACE: Final = "/admin/v2/namespaces/{namespace}"
_TOPIC: Final = "/admin/v2/{topic}"
_SUBSCRIPTION: Final = f"{_TOPIC}/subscription/{{subscription}}"
_LAG: Final = f"{_NAMESPACE}/offloadDeletionLagMs"

COMMANDS: Final = (
    Command(
        "namespaces set-offload-threshold",
        "PUT",
        f"{_NAMESPACE}/offloadThreshold",
        "Set the size of a topic from which old ledgers are to be moved; -1 is never.",
        body=(Option("", "--size -s", Written.BYTES, "10M, 16G."),),
    ),
    Command("namespaces get-offload-threshold", "GET", f"{_NAMESPACE}/offloadThreshold", "Show the size; -1 is never."),
    Command(
        "namespaces set-offload-threshold-in-seconds",
        "PUT",
        f"{_NAMESPACE}/offloadThresholdInSeconds",
        "Set the age from which old ledgers are to be moved; -1 is never.",
        body=(Option("", "--time -t", Written.SECONDS, "10m, 3h."),),
    ),
    Command(
        "namespaces get-offload-threshold-in-seconds",
        "GET",
        f"{_NAMESPACE}/offloadThresholdInSeconds",
        "Show the age in seconds; -1 is never.",
    ),
    Command(
        "namespaces set-offload-deletion-lag",
        "PUT",
        _LAG,
        "Set how long a moved ledger is kept here, too.",
        body=(Option("", "--lag -l", Written.MILLISECONDS, "10m, 5h, 3d."),),
    ),
    Command("namespaces get-offload-deletion-lag", "GET", _LAG, "Show it in milliseconds; null when it is not set."),
    Command("namespaces clear-offload-deletion-lag", "DELETE", _LAG, "Remove the time."),
    Command(
        "namespaces update-migration-state",
        "POST",
        f"{_NAMESPACE}/migration",
        "Mark a namespace as moved to another cluster, or not.",
        body=(Option("", "--migrated", Written.FLAG, "Moved; without it, not moved.", False),),
    ),
    Command(
        "topics offload",
        "PUT",
        f"{_TOPIC}/offload",
        "Move ledgers before a message: nothing happens without other storage.",
        body=(Option("ledgerId", "--ledger", help="Of the message."), Option("entryId", "--entry", help="Of it.")),
    ),
    Command("topics offload-status", "GET", f"{_TOPIC}/offload", "Show the state of offloading: NOT_RUN."),
    Command(
        "topics set-replicated-subscription-status",
        "POST",
        f"{_SUBSCRIPTION}/replicatedSubscriptionStatus",
        "Replicate a subscription to other clusters, or not; one node can only not.",
        body=(SWITCH,),
    ),
    Command(
        "topics get-replicated-subscription-status",
        "GET",
        f"{_SUBSCRIPTION}/replicatedSubscriptionStatus",
        "Show for each partition whether a subscription is replicated.",
    ),
    Command("topicPolicies delete", "DELETE", f"{_TOPIC}/policies", "Remove all policies of a topic."),
)
