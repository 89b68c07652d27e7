"""`spark-pulsar admin topics …` of subscriptions: create, skip, clear, expire, reset, unsubscribe."""

from typing import Annotated, Any

import typer

from spark_pulsar.cli.values import Topic, pairs, segment, show, time_s, topic_path
from spark_pulsar.client.clock import wall_ms
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.ids import EARLIEST_ID, LATEST_ID, MessageId

app = typer.Typer()
Subscription = Annotated[str, typer.Option("--subscription", "-s", help="Name of the subscription.")]
TtlMonitor = Annotated[str, typer.Option("--expireTime", "-t", help="Older than this: 90, 30s, 5m, 3h, 2d.")]
Pairs = Annotated[list[str] | None, typer.Option("--property", "-p", metavar="NAME=VALUE")]
Excluded = Annotated[bool, typer.Option("--exclude-reset-position", "-e", help="Without the message itself.")]


def subscription_path(topic: str, subscription: str) -> str:
    """Returns the REST path of a subscription."""
    return f"{topic_path(topic)}/subscription/{segment(subscription)}"


def _place(text: str, *, excluded: bool = False, properties: dict[str, str] | None = None) -> dict[str, Any]:
    """Reads `12:4:-1:-1`, `latest` or `earliest` into the JSON of the REST API."""
    named = {"latest": LATEST_ID, "earliest": EARLIEST_ID}
    try:
        wanted = named.get(text) or MessageId.parse(text)
    except PulsarError as error:
        raise typer.BadParameter(f"want LEDGER:ENTRY:PARTITION:BATCH, latest or earliest, got '{text}'") from error
    place: dict[str, Any] = {
        "ledgerId": wanted.ledger_id,
        "entryId": wanted.entry_id,
        "partitionIndex": wanted.partition,
        "batchIndex": wanted.batch_index,
        "excluded": excluded,
    }
    return place | ({"properties": properties} if properties else {})


@app.command("create-subscription")
def create_subscription(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    message_id: Annotated[
        str,
        typer.Option(
            "--messageId", "-m", help="latest, earliest, or the message to begin at, LEDGER:ENTRY:PARTITION:BATCH."
        ),
    ] = "latest",
    properties: Pairs = None,
) -> None:
    """Create a durable subscription, and its topic if that is missing."""
    place = _place(message_id, properties=pairs(properties))
    ctx.obj.put(subscription_path(topic, subscription), place)


@app.command("unsubscribe")
def unsubscribe(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    force: Annotated[bool, typer.Option("--force", "-f", help="Close connected consumers.")] = False,
) -> None:
    """Delete a subscription."""
    ctx.obj.delete(subscription_path(topic, subscription), force=force)


@app.command("get-subscription-properties")
def get_properties(ctx: typer.Context, topic: Topic, subscription: Subscription) -> None:
    """Show the properties of a subscription."""
    show(ctx.obj.get(f"{subscription_path(topic, subscription)}/properties"))


@app.command("update-subscription-properties")
def update_properties(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    properties: Pairs = None,
    clear: Annotated[bool, typer.Option("--clear", "-c", help="Remove all of them.")] = False,
) -> None:
    """Replace the properties of a subscription."""
    if clear == bool(properties):
        raise typer.BadParameter("Need either --property or --clear")
    ctx.obj.put(f"{subscription_path(topic, subscription)}/properties", pairs(properties))


@app.command("skip")
def skip(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Entries to skip; a batch is one.")],
) -> None:
    """Acknowledge the next entries of a subscription."""
    ctx.obj.post(f"{subscription_path(topic, subscription)}/skip/{count}")


@app.command("clear-backlog")
def clear_backlog(ctx: typer.Context, topic: Topic, subscription: Subscription) -> None:
    """Acknowledge everything for a subscription."""
    ctx.obj.post(f"{subscription_path(topic, subscription)}/skip_all")


@app.command("expire-messages")
def expire_messages(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    expire_time: Annotated[str | None, typer.Option("--expireTime", "-t", help="Older than: 90, 30s, 5m, 3h.")] = None,
    position: Annotated[str | None, typer.Option("--position", "-p", help="Up to LEDGER:ENTRY.")] = None,
    excluded: Excluded = False,
) -> None:
    """Acknowledge what is older than a time, or lies before a position."""
    path = f"{subscription_path(topic, subscription)}/expireMessages"
    if (expire_time is None) == (position is None):
        raise typer.BadParameter("Either time (--expireTime) or message position (--position) has to be provided")
    if expire_time is not None:
        ctx.obj.post(f"{path}/{time_s(expire_time)}")
    elif position is not None:
        ctx.obj.post(path, _place(position, excluded=excluded))


@app.command("expire-messages-all-subscriptions")
def expire_for_all(ctx: typer.Context, topic: Topic, expire_time: TtlMonitor) -> None:
    """Acknowledge what is older than a time, for every subscription."""
    ctx.obj.post(f"{topic_path(topic)}/all_subscription/expireMessages/{time_s(expire_time)}")


@app.command("reset-cursor")
def reset_cursor(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    time: Annotated[str | None, typer.Option("--time", "-t", help="So far back: 90, 30s, 5m, 3h, 2d.")] = None,
    message_id: Annotated[
        str | None, typer.Option("--messageId", "-m", help="latest, earliest, or LEDGER:ENTRY:PARTITION:BATCH.")
    ] = None,
    excluded: Excluded = False,
) -> None:
    """Move a subscription back or forth; connected consumers go on from there."""
    path = f"{subscription_path(topic, subscription)}/resetcursor"
    if (time is None) == (message_id is None):
        raise typer.BadParameter("Either Timestamp (--time) or Position (--messageId) has to be provided")
    if message_id is not None:
        ctx.obj.post(path, _place(message_id, excluded=excluded))
    elif time is not None:
        ctx.obj.post(f"{path}/{wall_ms() - 1000 * time_s(time)}")


@app.command("get-backlog-size")
def backlog_size(
    ctx: typer.Context,
    topic: Topic,
    message_id: Annotated[
        str, typer.Option("--messageId", "-m", help="LEDGER:ENTRY:PARTITION:BATCH, or earliest.")
    ] = "earliest",
) -> None:
    """Show how many bytes are stored from a message on, that one included."""
    show(ctx.obj.put(f"{topic_path(topic)}/backlogSize", _place(message_id)))


@app.command("analyze-backlog")
def analyze_backlog(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    position: Annotated[
        str | None, typer.Option("--position", "-p", help="LEDGER:ENTRY to begin at, instead of the first one.")
    ] = None,
) -> None:
    """Count what a subscription has not acknowledged, by looking at up to 10,000 entries themselves."""
    path = f"{subscription_path(topic, subscription)}/analyzeBacklog"
    show(ctx.obj.post(path) if position is None else ctx.obj.post(path, _place(position)))
