"""`spark-pulsar admin topics …` of subscriptions: create, skip, clear, expire, reset, unsubscribe."""

from typing import Annotated, Any, Final

import typer

from spark_pulsar.cli.access.topics import Topic
from spark_pulsar.cli.admin.command import rows
from spark_pulsar.cli.values import pairs, segment, time_s, topic_path
from spark_pulsar.client.clock import wall_ms
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.policies.policy_columns import Option, Written, flag
from spark_pulsar.model.positions.ids import EARLIEST_ID, LATEST_ID, MessageId

Subscription = Annotated[str, typer.Option("--subscription", "-s", help="Name of the subscription.")]
Pairs = Annotated[list[str] | None, typer.Option("--property", "-p", metavar="NAME=VALUE")]
Excluded = Annotated[bool, typer.Option("--exclude-reset-position", "-e", help="Without the message itself.")]
_TOPIC: Final = "/admin/v2/{topic}"
_SUBSCRIPTION: Final = f"{_TOPIC}/subscription/{{subscription}}"


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


def _create(
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
    place = _place(message_id, properties=pairs(properties))
    ctx.obj.put(subscription_path(topic, subscription), place)


def _update_properties(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    properties: Pairs = None,
    clear: Annotated[bool, typer.Option("--clear", "-c", help="Remove all of them.")] = False,
) -> None:
    if clear == bool(properties):
        raise typer.BadParameter("Need either --property or --clear")
    ctx.obj.put(f"{subscription_path(topic, subscription)}/properties", pairs(properties))


def _expire(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    expire_time: Annotated[str | None, typer.Option("--expireTime", "-t", help="Older than: 90, 30s, 5m, 3h.")] = None,
    position: Annotated[str | None, typer.Option("--position", "-p", help="Up to LEDGER:ENTRY.")] = None,
    excluded: Excluded = False,
) -> None:
    path = f"{subscription_path(topic, subscription)}/expireMessages"
    if (expire_time is None) == (position is None):
        raise typer.BadParameter("Either time (--expireTime) or message position (--position) has to be provided")
    if expire_time is not None:
        ctx.obj.post(f"{path}/{time_s(expire_time)}")
    elif position is not None:
        ctx.obj.post(path, _place(position, excluded=excluded))


def _reset(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    time: Annotated[str | None, typer.Option("--time", "-t", help="So far back: 90, 30s, 5m, 3h, 2d.")] = None,
    message_id: Annotated[
        str | None, typer.Option("--messageId", "-m", help="latest, earliest, or LEDGER:ENTRY:PARTITION:BATCH.")
    ] = None,
    excluded: Excluded = False,
) -> None:
    path = f"{subscription_path(topic, subscription)}/resetcursor"
    if (time is None) == (message_id is None):
        raise typer.BadParameter("Either Timestamp (--time) or Position (--messageId) has to be provided")
    if message_id is not None:
        ctx.obj.post(path, _place(message_id, excluded=excluded))
    elif time is not None:
        ctx.obj.post(f"{path}/{wall_ms() - 1000 * time_s(time)}")


def _backlog_size(
    ctx: typer.Context,
    topic: Topic,
    message_id: Annotated[
        str, typer.Option("--messageId", "-m", help="LEDGER:ENTRY:PARTITION:BATCH, or earliest.")
    ] = "earliest",
) -> Any:
    return ctx.obj.put(f"{topic_path(topic)}/backlogSize", _place(message_id))


def _analyze(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    position: Annotated[
        str | None, typer.Option("--position", "-p", help="LEDGER:ENTRY to begin at, instead of the first one.")
    ] = None,
) -> Any:
    path = f"{subscription_path(topic, subscription)}/analyzeBacklog"
    return ctx.obj.post(path) if position is None else ctx.obj.post(path, _place(position))


_topic: Final = rows("topics", "/admin/v2/{topic}")
_subscription: Final = rows("topics", "/admin/v2/{topic}/subscription/{subscription}")

COMMANDS: Final = (
    _topic("subscriptions", "GET /subscriptions", "List the subscriptions of a topic."),
    _subscription(
        "create-subscription", "PUT", "Create a durable subscription, and its topic if that is missing.", work=_create
    ),
    _subscription(
        "unsubscribe",
        "DELETE",
        "Delete a subscription.",
        query=(flag("force", "--force -f", "Close connected consumers."),),
    ),
    _subscription("get-subscription-properties", "GET /properties", "Show the properties of a subscription."),
    _subscription(
        "update-subscription-properties",
        "PUT /properties",
        "Replace the properties of a subscription.",
        work=_update_properties,
    ),
    _subscription(
        "skip",
        "POST /skip/{count}",
        "Acknowledge the next entries of a subscription.",
        placed=(Option("count", "--count -n", Written.COUNT, "Entries to skip; a batch is one."),),
    ),
    _subscription("clear-backlog", "POST /skip_all", "Acknowledge everything for a subscription."),
    _subscription(
        "expire-messages",
        "POST /expireMessages",
        "Acknowledge messages that are older than a time, or before a position.",
        work=_expire,
        also=(("POST", f"{_SUBSCRIPTION}/expireMessages/{{seconds}}"),),
    ),
    _topic(
        "expire-messages-all-subscriptions",
        "POST /all_subscription/expireMessages/{seconds}",
        "Acknowledge messages that are older than a time, for every subscription.",
        placed=(Option("seconds", "--expireTime -t", Written.SECONDS, "Older than this: 90, 30s, 5m, 3h, 2d."),),
    ),
    _subscription(
        "reset-cursor",
        "POST /resetcursor",
        "Move a subscription back or forth; connected consumers go on from there.",
        work=_reset,
        also=(("POST", f"{_SUBSCRIPTION}/resetcursor/{{time}}"),),
    ),
    _topic(
        "get-backlog-size",
        "PUT /backlogSize",
        "Show how many bytes are stored from a message on, that one included.",
        work=_backlog_size,
        shows=True,
    ),
    _subscription(
        "analyze-backlog",
        "POST /analyzeBacklog",
        "Count the unacknowledged messages of a subscription by reading up to 10,000 entries.",
        work=_analyze,
        shows=True,
    ),
)
