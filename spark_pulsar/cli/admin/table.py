"""Table of admin commands, of all groups: source of the tree of commands, of docs/admin.md and of their test
(ADM-71)."""

from typing import Final

from spark_pulsar.admin.http.path_names import OLD_PATHS
from spark_pulsar.cli.admin import (
    brokers,
    clusters,
    messages,
    namespaces,
    offloading,
    permissions,
    placement,
    policies,
    resources,
    schemas,
    subscriptions,
    topics,
    transactions,
)
from spark_pulsar.cli.admin.command import Command

GROUPS: Final = {
    "clusters": "Clusters.",
    "brokers": "The broker itself.",
    "tenants": "Tenants.",
    "namespaces": "Namespaces and their policies.",
    "topics": "Topics, partitions, subscriptions, messages, statistics and policies.",
    "topicPolicies": "Policies of topics.",
    "schemas": "Schemas of topics.",
    "broker-stats": "Statistics of the broker.",
    "transactions": "Transactions and their coordinators.",
    "resourcegroups": "Resource groups.",
    "resource-quotas": "Resource quotas of bundles.",
    "ns-isolation-policy": "Brokers that are kept for namespaces.",
}
"""Groups with their help, in the order of help."""
COMMANDS: Final[tuple[Command, ...]] = (
    *clusters.COMMANDS,
    *brokers.COMMANDS,
    *namespaces.COMMANDS,
    *topics.COMMANDS,
    *subscriptions.COMMANDS,
    *messages.COMMANDS,
    *permissions.COMMANDS,
    *schemas.COMMANDS,
    *policies.COMMANDS,
    *offloading.COMMANDS,
    *resources.COMMANDS,
    *placement.COMMANDS,
    *transactions.COMMANDS,
)
_SET_BACK: Final = (
    "admin/v2/namespaces/{tenant}/{namespace}/schemaAutoUpdateCompatibilityStrategy",
    "admin/v2/namespaces/{tenant}/{namespace}/isAllowAutoUpdateSchema",
    "admin/v2/namespaces/{tenant}/{namespace}/schemaValidationEnforced",
    "admin/v2/{domain}/{tenant}/{namespace}/{topic}/schemaValidationEnforced",
)
WITHOUT_COMMAND: Final = {
    "GET admin/namespaces/{cluster}/antiAffinity/{group}": "the same path without v2, which pulsar-admin requests",
    "DELETE admin/v2/namespaces/{tenant}/{namespace}/{bundle}": "pulsar-admin has none",
    "GET admin/v2/non-persistent/{tenant}/{namespace}/{bundle}": "topics list shows those of all bundles",
    **{
        f"POST admin/v2/namespaces/{verb}PermissionsOnTopics": "pulsar-admin has none: it is for programs"
        for verb in ("grant", "revoke")
    },
    **{f"GET {path}": f"an old path of {new}" for path, new in OLD_PATHS.items()},
    "GET metrics": "for Prometheus",
    "GET ": "the page, for browsers",
    "GET page/{file}": "a file of the page",
    "GET page/{release}/{file}": "a file of the page",
    "GET admin/v2/brokers/ready": "for probes; brokers healthcheck is the command",
    "GET admin/v2/brokers": "brokers list takes a cluster",
    **{f"DELETE {path}": "pulsar-admin sets the value that is the default" for path in _SET_BACK},
    "GET admin/v2/{domain}/{tenant}/{namespace}/{topic}/backlog": "topics stats shows the backlog",
}
"""Routes of the admin API that no command calls, with the reason."""
