"""`spark-pulsar admin brokers` and `broker-stats`."""

from typing import Final

from spark_pulsar.cli.admin.command import rows
from spark_pulsar.model.policies.policy_columns import Option, Written

_BROKERS: Final = "/admin/v2/brokers"
_KEY: Final = Option("name", "--config -c", Written.TEXT, "Name of the key.")
_brokers: Final = rows("brokers", "/admin/v2")
_broker_stats: Final = rows("broker-stats", "/admin/v2")

COMMANDS: Final = (
    _brokers("list", "GET /brokers/{cluster}", "List the brokers of a cluster: HOST:PORT of their admin API."),
    _brokers("leader-broker", "GET /brokers/leaderBroker", "Show the broker that leads the others."),
    _brokers("healthcheck", "GET /brokers/health", "Print ok when the broker serves."),
    _brokers(
        "backlog-quota-check",
        "GET /brokers/backlog-quota-check",
        "Check all backlog quotas now; the broker does so by itself when one may be reached.",
        answer=lambda _: "ok",
    ),
    _brokers("list-dynamic-config", "GET /brokers/configuration", "List the keys that change in the running broker."),
    _brokers(
        "get-all-dynamic-config",
        "GET /brokers/configuration/values",
        "Show the keys that were changed, and their values.",
    ),
    _brokers(
        "update-dynamic-config",
        "POST /brokers/configuration/{name}/{value}",
        "Change a key of the running broker.",
        placed=(_KEY, Option("value", "--value -v", Written.TEXT, "Its value.")),
    ),
    _brokers(
        "delete-dynamic-config",
        "DELETE /brokers/configuration/{name}",
        "Delete the dynamic value of a key.",
        placed=(_KEY,),
    ),
    _brokers(
        "get-runtime-config", "GET /brokers/configuration/runtime", "Show all keys with the values that they have now."
    ),
    _brokers(
        "get-internal-config", "GET /brokers/internal-configuration", "Show where Apache Pulsar keeps its metadata."
    ),
    _broker_stats("topics", "GET /broker-stats/topics", "Show the statistics of all topics."),
    _broker_stats("disk", "GET /broker-stats/disk", "Show the space of the broker's disk."),
    _broker_stats("monitoring-metrics", "GET /broker-stats/metrics", "Show metrics of the broker and its namespaces."),
    _broker_stats("load-report", "GET /broker-stats/load-report", "Show the load of the broker."),
    _brokers(
        "namespaces",
        "GET /brokers/{cluster}/{url}/ownedNamespaces",
        "Show the bundles with topics in use of a broker.",
        placed=(Option("url", "--url -u", Written.TEXT, "HOST:PORT of its admin API."),),
    ),
    _brokers("version", "GET /brokers/version", "Print the version of Apache Pulsar that the broker speaks."),
)
