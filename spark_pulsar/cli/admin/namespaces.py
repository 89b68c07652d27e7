"""`spark-pulsar admin namespaces`: namespaces and their policies."""

from typing import Annotated, Final

import typer

from spark_pulsar.cli.admin.command import rows
from spark_pulsar.cli.values import namespace_path, pairs, segment
from spark_pulsar.client.rest import NO_BODY
from spark_pulsar.model.policies.policy_columns import Option, Written, flag

_NAMESPACE: Final = "/admin/v2/namespaces/{namespace}"
Namespace = Annotated[str, typer.Argument(metavar="NAMESPACE", help="tenant/namespace")]


def _create(
    ctx: typer.Context,
    namespace: Namespace,
    bundles: Annotated[int | None, typer.Option("--bundles", "-b", min=1, help="Number of bundles.")] = None,
    clusters: Annotated[str | None, typer.Option("--clusters", "-c", help="Clusters by commas.")] = None,
) -> None:
    body: dict[str, object] = {} if bundles is None else {"bundles": {"numBundles": bundles}}
    if clusters is not None:
        body["replication_clusters"] = clusters.split(",")
    ctx.obj.put(namespace_path(namespace), body or NO_BODY)


def _clear_backlog(
    ctx: typer.Context,
    namespace: Namespace,
    sub: Annotated[str | None, typer.Option("--sub", "-s", help="Of this subscription only.")] = None,
    bundle: Annotated[str | None, typer.Option("--bundle", "-b", help="Of this bundle only: 0xLOW_0xHIGH.")] = None,
    force: Annotated[bool, typer.Option("--force", "-force", "-f", help="Skip the confirmation.")] = False,
) -> None:
    if not force and not typer.confirm("Are you sure you want to clear the backlog?"):
        return
    path = namespace_path(namespace) + ("" if bundle is None else f"/{bundle}")
    ctx.obj.post(f"{path}/clearBacklog" + ("" if sub is None else f"/{segment(sub)}"))


def _unsubscribe(
    ctx: typer.Context,
    namespace: Namespace,
    sub: Annotated[str, typer.Option("--sub", "-s", help="Subscription.")],
    bundle: Annotated[str | None, typer.Option("--bundle", "-b", help="Of this bundle only: 0xLOW_0xHIGH.")] = None,
) -> None:
    path = namespace_path(namespace) + ("" if bundle is None else f"/{bundle}")
    ctx.obj.post(f"{path}/unsubscribe/{segment(sub)}")


def _unload(
    ctx: typer.Context,
    namespace: Namespace,
    bundle: Annotated[str | None, typer.Option("--bundle", "-b", help="Of this bundle only: 0xLOW_0xHIGH.")] = None,
) -> None:
    ctx.obj.put(namespace_path(namespace) + ("" if bundle is None else f"/{bundle}") + "/unload")


def _set_properties(
    ctx: typer.Context,
    namespace: Namespace,
    prop: Annotated[list[str], typer.Option("--properties", "-p", metavar="NAME=VALUE", help="May be repeated.")],
) -> None:
    ctx.obj.put(f"{namespace_path(namespace)}/properties", pairs(prop, "--properties"))


_ALGORITHMS: Final = "range_equally_divide, topic_count_equally_divide or specified_positions_divide."
_KEY: Final = Option("key", "--key -k", Written.TEXT, "Name of the property.")
_namespaces: Final = rows("namespaces", "/admin/v2")
_namespace: Final = rows("namespaces", "/admin/v2/namespaces/{namespace}")

COMMANDS: Final = (
    _namespaces("list", "GET /namespaces/{tenant}", "List the namespaces of a tenant."),
    _namespace(
        "topics",
        "GET /topics",
        "List the topics of a namespace, each partition by itself.",
        fixed_query={"mode": "ALL"},
    ),
    _namespace("create", "PUT", "Create a namespace.", work=_create),
    _namespace(
        "delete",
        "DELETE",
        "Delete a namespace without topics.",
        query=(flag("force", "--force -f", "Delete its topics, too."),),
    ),
    _namespace(
        "clear-backlog",
        "POST /clearBacklog",
        "Acknowledge everything for all subscriptions of a namespace, or one of them.",
        work=_clear_backlog,
        also=tuple(
            ("POST", f"{_NAMESPACE}{end}")
            for end in (
                "/clearBacklog/{subscription}",
                "/{bundle}/clearBacklog",
                "/{bundle}/clearBacklog/{subscription}",
            )
        ),
    ),
    _namespace(
        "unsubscribe",
        "POST /unsubscribe/{subscription}",
        "Delete a subscription of all topics of a namespace.",
        work=_unsubscribe,
        also=(("POST", f"{_NAMESPACE}/{{bundle}}/unsubscribe/{{subscription}}"),),
    ),
    _namespace(
        "unload",
        "PUT /unload",
        "Close all producers and consumers of a namespace; they come back by themselves.",
        work=_unload,
        also=(("PUT", f"{_NAMESPACE}/{{bundle}}/unload"),),
    ),
    _namespace(
        "split-bundle",
        "PUT /{bundle}/split",
        "Split a bundle of a namespace.",
        placed=(Option("bundle", "--bundle -b", Written.TEXT, "0xLOW_0xHIGH, or LARGEST."),),
        query=(
            flag("unload", "--unload -u", "Unload its topics."),
            Option("splitAlgorithmName", "--split-algorithm-name -san", Written.TEXT, _ALGORITHMS, None),
        ),
        body=(Option("", "--split-boundaries -sb", Written.WORDS, "For specified_positions_divide.", None),),
    ),
    _namespace(
        "get-topic-hash-positions",
        "GET /{bundle}/topicHashPositions",
        "Show the place of each topic of a bundle.",
        placed=(Option("bundle", "--bundle -b", Written.TEXT, "0xLOW_0xHIGH."),),
    ),
    _namespace("bundles", "GET /bundles", "Show the bundles of a namespace."),
    _namespace("policies", "GET", "Show all policies of a namespace."),
    _namespace(
        "applied-policies", "GET /appliedPolicies", "Show all policies in effect, and the level that each comes from."
    ),
    _namespace("get-properties", "GET /properties", "Show the properties of a namespace."),
    _namespace("set-properties", "PUT /properties", "Add properties to a namespace.", work=_set_properties),
    _namespace("clear-properties", "DELETE /properties", "Remove all properties of a namespace."),
    _namespace("get-property", "GET /property/{key}", "Show one property of a namespace.", placed=(_KEY,)),
    _namespace(
        "set-property",
        "PUT /property/{key}/{value}",
        "Set one property of a namespace.",
        placed=(_KEY, Option("value", "--value -v", Written.TEXT, "Its value.")),
    ),
    _namespace(
        "remove-property",
        "DELETE /property/{key}",
        "Remove one property of a namespace, and show its value.",
        placed=(_KEY,),
        shows=True,
    ),
)
