"""`spark-pulsar admin topics` and `topicPolicies`: topics, partitions, statistics, policies of single topics."""

import time
from typing import Annotated

import typer

from spark_pulsar.cli.admin import messages as admin_messages
from spark_pulsar.cli.admin import subscriptions as admin_subscriptions
from spark_pulsar.cli.admin.permissions import add_topic_commands
from spark_pulsar.cli.admin.policies import Target, add_policy_commands
from spark_pulsar.cli.admin.rest import Command, add_commands
from spark_pulsar.cli.values import TOPIC_ARGUMENT, Topic, namespace_path, show, topic_name, topic_path

app = typer.Typer(help="Topics, partitions, subscriptions, messages, statistics and policies.", no_args_is_help=True)
policies = typer.Typer(help="Policies of topics.", no_args_is_help=True)
TOPIC = Target("TOPIC", topic_path, is_topic=True)
Partitions = Annotated[int, typer.Option("--partitions", "-p", min=1)]
Force = Annotated[bool, typer.Option("--force", "-f", help="Close connected producers and consumers first.")]
Namespace = Annotated[str, typer.Argument(metavar="NAMESPACE", help="tenant/namespace")]
_PAUSE_S = 0.2
_DOMAINS = ("persistent", "non-persistent")


@app.command("list")
def list_topics(
    ctx: typer.Context,
    namespace: Namespace,
    domain: Annotated[str | None, typer.Option("--topic-domain", "-td", help=f"{' or '.join(_DOMAINS)}.")] = None,
    system: Annotated[bool, typer.Option("--include-system-topic", "-ist")] = False,
) -> None:
    """List the topics of a namespace, each partition by itself."""
    tail = namespace_path(namespace).removeprefix("/admin/v2/namespaces")
    found = []
    for each in _DOMAINS if domain is None else (domain,):
        found += ctx.obj.get(f"/admin/v2/{each}{tail}", includeSystemTopic=system)
    show(found)


@app.command("list-partitioned-topics")
def list_partitioned(ctx: typer.Context, namespace: Namespace) -> None:
    """List the partitioned topics of a namespace."""
    tail = namespace_path(namespace).removeprefix("/admin/v2/namespaces")
    show([name for each in _DOMAINS for name in ctx.obj.get(f"/admin/v2/{each}{tail}/partitioned")])


@app.command("create")
def create(ctx: typer.Context, topic: Topic) -> None:
    """Create a topic without partitions."""
    ctx.obj.put(topic_path(topic), {})


@app.command("delete")
def delete(ctx: typer.Context, topic: Topic, force: Force = False) -> None:
    """Delete a topic without partitions, and its subscriptions."""
    ctx.obj.delete(topic_path(topic), force=force)


def _add_partitions(name: str, method: str, text: str) -> None:
    @app.command(name, help=text)
    def set_partitions(ctx: typer.Context, topic: Topic, partitions: Partitions) -> None:
        getattr(ctx.obj, method)(f"{topic_path(topic)}/partitions", partitions)


_add_partitions("create-partitioned-topic", "put", "Create a topic with partitions.")
_add_partitions("update-partitioned-topic", "post", "Give a partitioned topic more partitions.")


@app.command("delete-partitioned-topic")
def delete_partitioned(ctx: typer.Context, topic: Topic, force: Force = False) -> None:
    """Delete a partitioned topic with all its partitions."""
    ctx.obj.delete(f"{topic_path(topic)}/partitions", force=force)


@app.command("lookup")
def lookup(ctx: typer.Context, topic: Topic) -> None:
    """Show the address of the broker that serves a topic."""
    show(ctx.obj.get(_lookup_path(topic))["brokerUrl"])


def _lookup_path(topic: str) -> str:
    return topic_path(topic).replace("/admin/v2/", "/lookup/v2/topic/", 1)


bundle = Command("bundle-range", "GET", "/bundle", "Show the bundle of its namespace that a topic belongs to.")
add_commands(app, TOPIC_ARGUMENT, _lookup_path, bundle)


@app.command("stats")
def stats(
    ctx: typer.Context,
    topic: Topic,
    precise: Annotated[bool, typer.Option("--get-precise-backlog", "-gpb", help="Always so here.")] = False,
    sizes: Annotated[bool, typer.Option("--get-subscription-backlog-size", "-sbs", help="Always so here.")] = False,
    earliest: Annotated[
        bool, typer.Option("--get-earliest-time-in-backlog", "-etb", help="When the oldest message was published.")
    ] = False,
) -> None:
    """Show the statistics of a topic without partitions, or of one partition."""
    query = {"getPreciseBacklog": precise, "getEarliestTimeInBacklog": earliest}
    show(ctx.obj.get(f"{topic_path(topic)}/stats", **query))


@app.command("partitioned-stats")
def partitioned_stats(
    ctx: typer.Context, topic: Topic, per_partition: Annotated[bool, typer.Option("--per-partition")] = False
) -> None:
    """Show the statistics of a partitioned topic."""
    show(ctx.obj.get(f"{topic_path(topic)}/partitioned-stats", perPartition=per_partition))


@app.command("compact")
def compact(ctx: typer.Context, topic: Topic) -> None:
    """Keep only the last message of each key for readers of the compacted view."""
    ctx.obj.put(f"{topic_path(topic)}/compaction")
    typer.echo(f"Topic compaction requested for {topic_name(topic)}.")


@app.command("compaction-status")
def compaction_status(
    ctx: typer.Context,
    topic: Topic,
    wait: Annotated[bool, typer.Option("--wait-complete", "-w", help="Wait until it is done.")] = False,
) -> None:
    """Say how the last compaction since the start of the broker went; 1 when it failed."""
    path = f"{topic_path(topic)}/compaction"
    answer = ctx.obj.get(path)
    while wait and answer["status"] == "RUNNING":
        time.sleep(_PAUSE_S)
        answer = ctx.obj.get(path)
    texts = {
        "NOT_RUN": f"Compaction has not been run for {topic_name(topic)} since broker startup",
        "RUNNING": "Compaction is currently running",
        "SUCCESS": "Compaction was a success",
    }
    if answer["status"] in texts:
        typer.echo(texts[answer["status"]])
    else:
        typer.echo(f"Error in compaction\n{answer['lastError']}", err=True)
        raise typer.Exit(1)


add_commands(
    app,
    TOPIC_ARGUMENT,
    topic_path,
    Command("get-partitioned-topic-metadata", "GET", "/partitions", "Show the number of partitions."),
    Command("unload", "PUT", "/unload", "Close all producers and consumers of a topic; they come back by themselves."),
    Command(
        "terminate",
        "POST",
        "/terminate",
        "Let a topic take no more messages, for good; shows the id of its last one.",
        True,
    ),
    Command(
        "partitioned-terminate",
        "POST",
        "/terminate/partitions",
        "Let a partitioned topic take no more messages, for good; shows the id of the last one of each partition.",
        True,
    ),
    Command(
        "truncate",
        "DELETE",
        "/truncate",
        "Let every subscription skip to the end, and give back the space of what is stored.",
    ),
    Command(
        "trim-topic",
        "POST",
        "/trim",
        "Give back the space of what no subscription needs and retention does not keep.",
    ),
    Command(
        "create-missed-partitions",
        "POST",
        "/createMissedPartitions",
        "Create the partitions of a partitioned topic that are missing.",
    ),
    Command("stats-internal", "GET", "/internalStats", "Show the ledgers and cursors of a topic."),
    Command(
        "partitioned-stats-internal",
        "GET",
        "/partitioned-internalStats",
        "Show the ledgers and cursors of all partitions of a topic.",
    ),
    Command("info-internal", "GET", "/internal-info", "Show what is stored about the ledgers and cursors of a topic."),
    Command("subscriptions", "GET", "/subscriptions", "List the subscriptions of a topic."),
    Command("last-message-id", "GET", "/lastMessageId", "Show the id of the last message."),
)
app.registered_commands += [*admin_subscriptions.app.registered_commands, *admin_messages.app.registered_commands]
add_policy_commands(app, TOPIC)
add_policy_commands(policies, TOPIC)
add_topic_commands(app)
