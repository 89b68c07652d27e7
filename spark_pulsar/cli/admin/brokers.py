"""`spark-pulsar admin brokers` and `broker-stats`."""

from typing import Final

from spark_pulsar.cli.admin.command import Command
from spark_pulsar.model.policies.policy_columns import Option, Written

_BROKERS: Final = "/admin/v2/brokers"
_DYNAMIC: Final = f"{_BROKERS}/configuration"
_KEY: Final = Option("name", "--config -c", Written.TEXT, "Name of the key.")
COMMANDS: Final = (
    Command(
        "brokers list", "GET", f"{_BROKERS}/{{cluster}}", "List the brokers of a cluster: HOST:PORT of their admin API."
    ),
    Command("brokers leader-broker", "GET", f"{_BROKERS}/leaderBroker", "Show the broker that leads the others."),
    Command("brokers healthcheck", "GET", f"{_BROKERS}/health", "Print ok when the broker serves."),
    Command(
        "brokers backlog-quota-check",
        "GET",
        f"{_BROKERS}/backlog-quota-check",
        "Look at all backlog quotas now; the broker does so by itself when one may be reached.",
        answer=lambda _: "ok",
    ),
    Command("brokers list-dynamic-config", "GET", _DYNAMIC, "List the keys that change in the running broker."),
    Command(
        "brokers get-all-dynamic-config",
        "GET",
        f"{_DYNAMIC}/values",
        "Show the keys that were changed, and their values.",
    ),
    Command(
        "brokers update-dynamic-config",
        "POST",
        f"{_DYNAMIC}/{{name}}/{{value}}",
        "Change a key of the running broker.",
        placed=(_KEY, Option("value", "--value -v", Written.TEXT, "Its value.")),
    ),
    Command(
        "brokers delete-dynamic-config",
        "DELETE",
        f"{_DYNAMIC}/{{name}}",
        "Forget the change of a key.",
        placed=(_KEY,),
    ),
    Command(
        "brokers get-runtime-config", "GET", f"{_DYNAMIC}/runtime", "Show all keys with the values that they have now."
    ),
    Command(
        "brokers get-internal-config",
        "GET",
        f"{_BROKERS}/internal-configuration",
        "Show where Apache Pulsar keeps its metadata.",
    ),
    Command("broker-stats topics", "GET", "/admin/v2/broker-stats/topics", "Show the statistics of all topics."),
    Command("broker-stats disk", "GET", "/admin/v2/broker-stats/disk", "Show the space of the broker's disk."),
    Command(
        "broker-stats monitoring-metrics",
        "GET",
        "/admin/v2/broker-stats/metrics",
        "Show metrics of the broker and its namespaces.",
    ),
    Command("broker-stats load-report", "GET", "/admin/v2/broker-stats/load-report", "Show the load of the broker."),
    Command(
        "brokers namespaces",
        "GET",
        f"{_BROKERS}/{{cluster}}/{{url}}/ownedNamespaces",
        "Show the bundles with topics in use of a broker.",
        placed=(Option("url", "--url -u", Written.TEXT, "HOST:PORT of its admin API."),),
    ),
    Command(
        "brokers version", "GET", f"{_BROKERS}/version", "Print the version of Apache Pulsar that the broker speaks."
    ),
)
