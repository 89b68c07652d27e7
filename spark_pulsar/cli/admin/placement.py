"""`spark-pulsar admin clusters`, `ns-isolation-policy` and `namespaces`: peers, migration, and the placement of
namespaces on brokers, which this broker keeps and does not act upon."""

from typing import Annotated, Final

import typer

from spark_pulsar.cli.admin.command import Command, rows
from spark_pulsar.cli.values import pairs, segment
from spark_pulsar.model.policies.policy_columns import Option, Written, flag

_CLUSTER: Final = "/admin/v2/clusters/{cluster}"
_DOMAIN: Final = f"{_CLUSTER}/failureDomains/{{name}}"
_POLICIES: Final = f"{_CLUSTER}/namespaceIsolationPolicies"

_DOMAIN_NAME: Final = (Option("name", "--domain-name", Written.TEXT, "Name of the domain."),)
_BROKERS: Final = (Option("brokers", "--broker-list", Written.WORDS, "Brokers by commas.", None),)
_POLICY_NAME: Final = (Option("name", "--policy-name", Written.TEXT, "Name of the policy."),)
_SERVICE_URL: Final = (
    Option("serviceUrl", "--service-url", Written.TEXT, "http://HOST:PORT of the admin API.", None),
    Option("serviceUrlTls", "--service-url-secure", Written.TEXT, "The same with https://.", None),
    Option("brokerServiceUrl", "--broker-url", Written.TEXT, "pulsar://HOST:PORT.", None),
    Option("brokerServiceUrlTls", "--broker-url-secure", Written.TEXT, "pulsar+ssl://HOST:PORT.", None),
)


def _set_policy(
    ctx: typer.Context,
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER")],
    name: Annotated[str, typer.Option("--policy-name", help="Name of the policy.")],
    namespaces: Annotated[str, typer.Option("--namespaces", help="Regular expressions by commas.")],
    primary: Annotated[str, typer.Option("--primary", help="Regular expressions of brokers, by commas.")],
    parameters: Annotated[
        list[str],
        typer.Option("--auto-failover-policy-params", metavar="NAME=VALUE", help="min_limit, usage_threshold."),
    ],
    secondary: Annotated[str | None, typer.Option("--secondary", help="Regular expressions of brokers.")] = None,
    kind: Annotated[
        str, typer.Option("--auto-failover-policy-type", help="min_available is the only one.")
    ] = "min_available",
) -> None:
    body = {
        "namespaces": namespaces.split(","),
        "primary": primary.split(","),
        "secondary": [] if secondary is None else secondary.split(","),
        "auto_failover_policy": {
            "policy_type": kind,
            "parameters": pairs(
                [part for text in parameters for part in text.split(",")], "--auto-failover-policy-params"
            ),
        },
    }
    ctx.obj.post(f"{_POLICIES.format(cluster=segment(cluster))}/{segment(name)}", body)


_clusters: Final = rows("clusters", "/admin/v2/clusters/{cluster}")
_isolation: Final = rows("ns-isolation-policy", "/admin/v2/clusters/{cluster}")
_namespace: Final = rows("namespaces", "/admin/v2/namespaces/{namespace}")
_namespaces: Final = rows("namespaces", "/admin/v2")

COMMANDS: Final = (
    _clusters(
        "update-peer-clusters",
        "POST /peers",
        "Set the peers of a cluster.",
        body=(Option("", "--peer-clusters", Written.WORDS, "Clusters by commas."),),
    ),
    _clusters("get-peer-clusters", "GET /peers", "Show the peers of a cluster."),
    _clusters(
        "update-cluster-migration-url",
        "POST /migrate",
        "Mark a cluster as moved to other addresses.",
        query=(flag("migrated", "--migrated", "Moved; without it, not moved."),),
        body=_SERVICE_URL,
    ),
    _clusters("get-cluster-migration-url", "GET /migrate", "Show the addresses that it moved to."),
    _clusters("list-failure-domains", "GET /failureDomains", "Show the failure domains of a cluster."),
    *(
        Command(f"clusters {word}-failure-domain", method, _DOMAIN, text, placed=_DOMAIN_NAME, body=body)
        for word, method, text, body in (
            ("create", "POST", "Make a failure domain of a cluster.", _BROKERS),
            ("update", "POST", "Replace the brokers of a failure domain.", _BROKERS),
            ("get", "GET", "Show a failure domain.", ()),
            ("delete", "DELETE", "Delete a failure domain.", ()),
        )
    ),
    _isolation(
        "set", "POST /namespaceIsolationPolicies/{name}", "Keep brokers of a cluster for namespaces.", work=_set_policy
    ),
    _isolation(
        "list", "GET /namespaceIsolationPolicies", "Show which brokers of a cluster are kept for which namespaces."
    ),
    _isolation("get", "GET /namespaceIsolationPolicies/{name}", "Show one of these policies.", placed=_POLICY_NAME),
    _isolation(
        "delete", "DELETE /namespaceIsolationPolicies/{name}", "Delete one of these policies.", placed=_POLICY_NAME
    ),
    _isolation(
        "brokers",
        "GET /namespaceIsolationPolicies/brokers",
        "Show for each broker the namespaces that it is reserved for.",
    ),
    _isolation(
        "broker",
        "GET /namespaceIsolationPolicies/brokers/{broker}",
        "Show the namespaces that a broker is reserved for.",
        placed=(Option("broker", "--broker", Written.TEXT, "HOST:PORT."),),
    ),
    _namespace(
        "set-anti-affinity-group",
        "POST /antiAffinity",
        "Set the group of namespaces that are kept apart.",
        body=(Option("", "--group -g", Written.TEXT, "Name of the group."),),
    ),
    _namespace("get-anti-affinity-group", "GET /antiAffinity", "Show the group of a namespace."),
    _namespace("delete-anti-affinity-group", "DELETE /antiAffinity", "Remove a namespace from its group."),
    _namespaces(
        "get-anti-affinity-namespaces",
        "GET /namespaces/{cluster}/antiAffinity/{group}",
        "List the namespaces of a group.",
        placed=(
            Option("cluster", "--cluster -c", Written.TEXT, "Cluster."),
            Option("group", "--group -g", Written.TEXT, "Name of the group."),
        ),
        query=(Option("tenant", "--tenant -p", Written.TEXT, "Tenant."),),
    ),
)
