"""`spark-pulsar admin topics`: topics, partitions, properties, statistics, compaction."""

import time
from typing import Annotated, Any, Final

import typer

from spark_pulsar.cli.access.topics import Topic
from spark_pulsar.cli.admin.command import rows
from spark_pulsar.cli.output.formats import Output, show
from spark_pulsar.cli.output.progress import Progress
from spark_pulsar.cli.values import namespace_path, pairs, topic_name, topic_path
from spark_pulsar.model.policies.policy_columns import Option, Written, flag

Namespace = Annotated[str, typer.Argument(metavar="NAMESPACE", help="tenant/namespace")]
_FORCE: Final = (flag("force", "--force -f", "Close connected producers and consumers first."),)
_PARTITIONS: Final = (Option("", "--partitions -p", Written.POSITIVE, "Number of partitions."),)
_PAUSE_S: Final = 0.2
_DOMAINS: Final = ("persistent", "non-persistent")


def _list(
    ctx: typer.Context,
    namespace: Namespace,
    domain: Annotated[str | None, typer.Option("--topic-domain", "-td", help=f"{' or '.join(_DOMAINS)}.")] = None,
    system: Annotated[
        bool, typer.Option("--include-system-topic", "-ist", help="With those that Pulsar made for itself.")
    ] = False,
) -> list[str]:
    tail, topics = namespace_path(namespace).removeprefix("/admin/v2/namespaces"), []
    for topic_domain in _DOMAINS if domain is None else (domain,):
        topics += ctx.obj.get(f"/admin/v2/{topic_domain}{tail}", includeSystemTopic=system)
    return topics


def _list_partitioned(ctx: typer.Context, namespace: Namespace) -> list[str]:
    tail = namespace_path(namespace).removeprefix("/admin/v2/namespaces")
    return [name for domain in _DOMAINS for name in ctx.obj.get(f"/admin/v2/{domain}{tail}/partitioned")]


def _update_properties(
    ctx: typer.Context,
    topic: Topic,
    prop: Annotated[list[str], typer.Option("--property", "-p", metavar="NAME=VALUE", help="May be repeated.")],
) -> None:
    ctx.obj.put(f"{topic_path(topic)}/properties", pairs(prop, "--property"))


def _compact(ctx: typer.Context, topic: Topic) -> None:
    ctx.obj.put(f"{topic_path(topic)}/compaction")
    typer.echo(f"Topic compaction requested for {topic_name(topic)}.")


def _compaction_status(
    ctx: typer.Context,
    topic: Topic,
    wait: Annotated[bool, typer.Option("--wait-complete", "-w", help="Wait until it is done.")] = False,
    output: Output = None,
) -> None:
    path = f"{topic_path(topic)}/compaction"
    answer = ctx.obj.get(path)
    with Progress(f"Compacting {topic_name(topic)}") as progress:
        while wait and answer["status"] == "RUNNING":
            time.sleep(_PAUSE_S)
            progress.update()
            answer = ctx.obj.get(path)
    texts = {
        "NOT_RUN": f"Compaction has not been run for {topic_name(topic)} since broker startup",
        "RUNNING": "Compaction is currently running",
        "SUCCESS": "Compaction was a success",
    }
    if output is not None:
        show(answer, output)
    elif answer["status"] in texts:
        typer.echo(texts[answer["status"]])  # pulsar-admin's sentences
    else:
        typer.echo(f"Error in compaction\n{answer['lastError']}", err=True)
    if answer["status"] not in texts:
        raise typer.Exit(1)


def _broker_url(answer: Any) -> Any:
    return answer["brokerUrl"]


_topic: Final = rows("topics", "/admin/v2/{topic}")
_topics: Final = rows("topics", "/admin/v2")
_lookup: Final = rows("topics", "/lookup/v2/topic/{topic}")

COMMANDS: Final = (
    _topic(
        "applied-policies", "GET /appliedPolicies", "Show all policies in effect, and the level that each comes from."
    ),
    _topics(
        "list", "GET /{domain}/{namespace}", "List the topics of a namespace, each partition by itself.", work=_list
    ),
    _topics(
        "list-partitioned-topics",
        "GET /{domain}/{namespace}/partitioned",
        "List the partitioned topics of a namespace.",
        work=_list_partitioned,
    ),
    _topic("create", "PUT", "Create a topic without partitions.", fixed_body={}),
    _topic("delete", "DELETE", "Delete a topic without partitions, and its subscriptions.", query=_FORCE),
    _topic("create-partitioned-topic", "PUT /partitions", "Create a topic with partitions.", body=_PARTITIONS),
    _topic(
        "update-partitioned-topic", "POST /partitions", "Give a partitioned topic more partitions.", body=_PARTITIONS
    ),
    _topic(
        "delete-partitioned-topic",
        "DELETE /partitions",
        "Delete a partitioned topic with all its partitions.",
        query=_FORCE,
    ),
    _topic("get-partitioned-topic-metadata", "GET /partitions", "Show the number of partitions."),
    _topic(
        "create-missed-partitions",
        "POST /createMissedPartitions",
        "Create the partitions of a partitioned topic that are missing.",
    ),
    _lookup("lookup", "GET", "Show the address of the broker that serves a topic.", answer=_broker_url),
    _lookup("bundle-range", "GET /bundle", "Show the bundle of its namespace that a topic belongs to."),
    _topic(
        "stats",
        "GET /stats",
        "Show the statistics of a topic without partitions, or of one partition.",
        query=(
            flag("getPreciseBacklog", "--get-precise-backlog -gpb", "Always so here."),
            flag("subscriptionBacklogSize", "--get-subscription-backlog-size -sbs", "Always so here."),
            flag(
                "getEarliestTimeInBacklog",
                "--get-earliest-time-in-backlog -etb",
                "When the oldest message was published.",
            ),
        ),
    ),
    _topic(
        "partitioned-stats",
        "GET /partitioned-stats",
        "Show the statistics of a partitioned topic.",
        query=(flag("perPartition", "--per-partition", "Those of each partition, too."),),
    ),
    _topic("stats-internal", "GET /internalStats", "Show the ledgers and cursors of a topic."),
    _topic(
        "partitioned-stats-internal",
        "GET /partitioned-internalStats",
        "Show the ledgers and cursors of all partitions of a topic.",
    ),
    _topic("info-internal", "GET /internal-info", "Show the stored state of the ledgers and cursors of a topic."),
    _topic("get-properties", "GET /properties", "Show the properties of a topic."),
    _topic("update-properties", "PUT /properties", "Add properties to a topic.", work=_update_properties),
    _topic(
        "remove-properties",
        "DELETE /properties",
        "Remove one property of a topic.",
        query=(Option("key", "--key -k", Written.TEXT, "Name of the property."),),
    ),
    _topic("unload", "PUT /unload", "Close all producers and consumers of a topic; they come back by themselves."),
    _topic(
        "terminate",
        "POST /terminate",
        "Let a topic take no more messages, for good; shows the id of its last one.",
        shows=True,
    ),
    _topic(
        "partitioned-terminate",
        "POST /terminate/partitions",
        "Let a partitioned topic take no more messages, for good; shows the id of the last one of each partition.",
        shows=True,
    ),
    _topic(
        "truncate",
        "DELETE /truncate",
        "Have every subscription skip to the end, and free the space of the stored messages.",
    ),
    _topic("trim-topic", "POST /trim", "Give back the space of what neither a subscription nor retention keeps."),
    _topic(
        "compact",
        "PUT /compaction",
        "Keep only the last message of each key for readers of the compacted view.",
        work=_compact,
    ),
    _topic(
        "compaction-status",
        "GET /compaction",
        "Say how the last compaction since the start of the broker went; 1 when it failed.",
        work=_compaction_status,
        shows=False,
    ),
)
