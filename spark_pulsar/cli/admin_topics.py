"""`spark-pulsar admin topics` and `topicPolicies`: topics, partitions, statistics, policies of single topics."""

from typing import Annotated

import typer

from spark_pulsar.cli.admin_compaction import add_compaction_commands
from spark_pulsar.cli.admin_messages import add_message_commands
from spark_pulsar.cli.admin_policies import Target, add_policy_commands
from spark_pulsar.cli.admin_subscriptions import add_subscription_commands
from spark_pulsar.cli.admin_values import namespace_path, show, topic_path

app = typer.Typer(help="Topics, partitions, subscriptions, messages, statistics and policies.", no_args_is_help=True)
policies = typer.Typer(help="Policies of topics.", no_args_is_help=True)
TOPIC = Target("TOPIC", topic_path, is_topic=True)
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Short (public/default) or full name.")]
Partitions = Annotated[int, typer.Option("--partitions", "-p", min=1)]
Force = Annotated[bool, typer.Option("--force", "-f", help="Close who is connected.")]
Namespace = Annotated[str, typer.Argument(metavar="NAMESPACE", help="tenant/namespace")]
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


@app.command("create-partitioned-topic")
def create_partitioned(ctx: typer.Context, topic: Topic, partitions: Partitions) -> None:
    """Create a topic with partitions."""
    ctx.obj.put(f"{topic_path(topic)}/partitions", partitions)


@app.command("update-partitioned-topic")
def update_partitioned(ctx: typer.Context, topic: Topic, partitions: Partitions) -> None:
    """Give a partitioned topic more partitions."""
    ctx.obj.post(f"{topic_path(topic)}/partitions", partitions)


@app.command("get-partitioned-topic-metadata")
def partitioned_metadata(ctx: typer.Context, topic: Topic) -> None:
    """Show the number of partitions."""
    show(ctx.obj.get(f"{topic_path(topic)}/partitions"))


@app.command("delete-partitioned-topic")
def delete_partitioned(ctx: typer.Context, topic: Topic, force: Force = False) -> None:
    """Delete a partitioned topic with all its partitions."""
    ctx.obj.delete(f"{topic_path(topic)}/partitions", force=force)


@app.command("lookup")
def lookup(ctx: typer.Context, topic: Topic) -> None:
    """Show the address of the broker that serves a topic."""
    show(ctx.obj.get(_lookup_path(topic))["brokerUrl"])


@app.command("bundle-range")
def bundle_range(ctx: typer.Context, topic: Topic) -> None:
    """Show the bundle of its namespace that a topic belongs to."""
    show(ctx.obj.get(f"{_lookup_path(topic)}/bundle"))


def _lookup_path(topic: str) -> str:
    return topic_path(topic).replace("/admin/v2/", "/lookup/v2/topic/", 1)


@app.command("unload")
def unload(ctx: typer.Context, topic: Topic) -> None:
    """Close all producers and consumers of a topic; they come back by themselves."""
    ctx.obj.put(f"{topic_path(topic)}/unload")


@app.command("terminate")
def terminate(ctx: typer.Context, topic: Topic) -> None:
    """Let a topic take no more messages, for good; shows the id of its last one."""
    show(ctx.obj.post(f"{topic_path(topic)}/terminate"))


@app.command("partitioned-terminate")
def terminate_partitions(ctx: typer.Context, topic: Topic) -> None:
    """Let a partitioned topic take no more messages, for good; shows the id of the last one of each partition."""
    show(ctx.obj.post(f"{topic_path(topic)}/terminate/partitions"))


@app.command("truncate")
def truncate(ctx: typer.Context, topic: Topic) -> None:
    """Let every subscription skip to the end, and give back the space of what is stored."""
    ctx.obj.delete(f"{topic_path(topic)}/truncate")


@app.command("trim-topic")
def trim(ctx: typer.Context, topic: Topic) -> None:
    """Give back the space of what no subscription needs and retention does not keep."""
    ctx.obj.post(f"{topic_path(topic)}/trim")


@app.command("create-missed-partitions")
def create_missed(ctx: typer.Context, topic: Topic) -> None:
    """Create the partitions of a partitioned topic that are missing."""
    ctx.obj.post(f"{topic_path(topic)}/createMissedPartitions")


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


@app.command("stats-internal")
def stats_internal(ctx: typer.Context, topic: Topic) -> None:
    """Show the ledgers and cursors of a topic."""
    show(ctx.obj.get(f"{topic_path(topic)}/internalStats"))


@app.command("partitioned-stats-internal")
def partitioned_stats_internal(ctx: typer.Context, topic: Topic) -> None:
    """Show the ledgers and cursors of all partitions of a topic."""
    show(ctx.obj.get(f"{topic_path(topic)}/partitioned-internalStats"))


@app.command("info-internal")
def info_internal(ctx: typer.Context, topic: Topic) -> None:
    """Show what is stored about the ledgers and cursors of a topic."""
    show(ctx.obj.get(f"{topic_path(topic)}/internal-info"))


add_subscription_commands(app)
add_message_commands(app)
add_compaction_commands(app)
add_policy_commands(app, TOPIC)
add_policy_commands(policies, TOPIC)
