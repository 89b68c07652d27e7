"""`spark-pulsar admin topics …` that show messages: peek, by id, examine, last id, id by time."""

import base64
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

import typer

from spark_pulsar.cli.access.topics import Topic
from spark_pulsar.cli.admin.command import AsPulsarAdmin, rows
from spark_pulsar.cli.admin.subscriptions import Subscription, subscription_path
from spark_pulsar.cli.output.formats import Format, show
from spark_pulsar.cli.values import topic_path
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.pulsar_api_pb2 import SingleMessageMetadata

_BYTES_A_LINE = 16


class IsolationLevel(StrEnum):
    """Messages of transactions that are shown."""

    READ_COMMITTED = "READ_COMMITTED"
    READ_UNCOMMITTED = "READ_UNCOMMITTED"


def _peek(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Entries to show; a batch is one.")] = 1,
    with_markers: Annotated[
        bool, typer.Option("--show-server-marker", "-ssm", help="With markers, which brokers write.")
    ] = False,
    level: Annotated[
        IsolationLevel,
        typer.Option(
            "--transaction-isolation-level",
            "-til",
            help="READ_UNCOMMITTED: with messages of transactions that are open or aborted.",
        ),
    ] = IsolationLevel.READ_COMMITTED,
    output: AsPulsarAdmin = None,
) -> None:
    path, messages, shown = f"{subscription_path(topic, subscription)}/position", [], 0
    for number in itertools.count(1):
        answer = ctx.obj.fetch(f"{path}/{number}", may_be_missing=True) if shown < count else None
        if answer is None:
            break
        headers, _ = answer
        shows_all = level is IsolationLevel.READ_UNCOMMITTED
        if headers.get("x-pulsar-txn-uncommitted") == "true" and not shows_all:
            break  # so is everything behind it
        is_aborted, is_marker = headers.get("x-pulsar-txn-aborted") == "true", "x-pulsar-marker-type" in headers
        if (with_markers or not is_marker) and (shows_all or not is_aborted):
            messages += _messages_of(*answer)
            shown += 1
    _show(messages, output)


def _by_id(
    ctx: typer.Context,
    topic: Topic,
    ledger: Annotated[int, typer.Option("--ledgerId", "-l")],
    entry: Annotated[int, typer.Option("--entryId", "-e")],
    output: AsPulsarAdmin = None,
) -> None:
    _show(_messages_of(*ctx.obj.fetch(f"{topic_path(topic)}/ledger/{ledger}/entry/{entry}")), output)


def _examine(
    ctx: typer.Context,
    topic: Topic,
    start: Annotated[str, typer.Option("--initialPosition", "-i", help="earliest or latest")] = "latest",
    number: Annotated[int, typer.Option("--messagePosition", "-m", min=1, help="The n-th from there.")] = 1,
    output: AsPulsarAdmin = None,
) -> None:
    query = f"initialPosition={start}&messagePosition={number}"
    _show(_messages_of(*ctx.obj.fetch(f"{topic_path(topic)}/examinemessage?{query}")), output)


def _id_at(
    ctx: typer.Context,
    topic: Topic,
    moment: Annotated[str, typer.Option("--datetime", "-d", help="Like 2026-11-21T15:00:00.000+02:00.")],
) -> Any:
    try:
        time_ms = round(datetime.fromisoformat(moment).astimezone().timestamp() * 1000)
    except ValueError as error:
        raise typer.BadParameter(f"want a date and time like 2026-11-21T15:00:00.000+02:00, got '{moment}'") from error
    return ctx.obj.get(f"{topic_path(topic)}/messageid/{time_ms}")


class _Message(NamedTuple):
    """A message as the admin API returns it; the name is its id, as pulsar-admin prints it."""

    name: str
    message_id: MessageId
    publish_time: str
    event_time: str | None
    key: str | None
    properties: Mapping[str, str]
    payload: bytes

    def as_object(self) -> dict[str, Any]:
        """Returns the message as JSON; a payload that is no text is in base64."""
        try:
            value = {"value": self.payload.decode()}
        except UnicodeDecodeError:
            value = {"value_base64": base64.b64encode(self.payload).decode()}
        metadata = {"publish_time": self.publish_time, "event_time": self.event_time, "key": self.key}
        return {"id": str(self.message_id), **metadata, "properties": dict(self.properties), **value}


def _messages_of(headers: Mapping[str, str], body: bytes) -> list[_Message]:
    """Returns the messages of an entry: one, or those of a batch."""
    count = headers.get("x-pulsar-num-batch-message")
    message_id = MessageId.parse(headers.get("x-pulsar-message-id", ""))
    key = headers.get("x-pulsar-partition-key")
    times = headers.get("x-pulsar-publish-time", ""), headers.get("x-pulsar-event-time")
    if count is None:
        properties = json.loads(headers.get("x-pulsar-property", "{}"))
        return [_Message(f"Message ID: {message_id}", message_id, *times, key, properties, body)]
    messages = []
    for index, (single, payload) in enumerate(_unpacked(body, int(count))):
        own = {pair.key: pair.value for pair in single.properties}
        one = message_id._replace(batch_index=index)
        its_key = single.partition_key if single.HasField("partition_key") else key
        messages.append(_Message(f"Batch Message ID: {one}", one, *times, its_key, own, payload))
    return messages


def _show(messages: list[_Message], output: Format | None) -> None:
    if output is not None:
        show([message.as_object() for message in messages], output)
        return
    for number, message in enumerate(messages):
        _print(message, is_first=number == 0)


def _unpacked(body: bytes, count: int) -> Iterator[tuple[SingleMessageMetadata, bytes]]:
    """Yields metadata and payload of each message of a batch."""
    at = 0
    for _ in range(count):
        size = int.from_bytes(body[at : at + 4], "big")
        single = SingleMessageMetadata.FromString(body[at + 4 : at + 4 + size])
        at += 4 + size
        yield single, body[at : at + single.payload_size]
        at += single.payload_size


def _print(message: _Message, *, is_first: bool) -> None:
    out = [] if is_first else ["-" * 73]
    out += [message.name, f"Publish time: {message.publish_time}"]
    out += [] if message.event_time is None else [f"Event time: {message.event_time}"]
    out += [] if message.key is None else [f"Key: {message.key}"]
    out += ["Properties:", *(f"{key}    {value}" for key, value in message.properties.items())]
    payload = message.payload
    for at in range(0, len(payload), _BYTES_A_LINE):
        part = payload[at : at + _BYTES_A_LINE]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        out.append(f"{at:08x}  {part.hex(' '):<{3 * _BYTES_A_LINE}} |{text}|")
    sys.stdout.write("\n".join(out) + "\n")


_subscription: Final = rows("topics", "/admin/v2/{topic}/subscription/{subscription}")
_topic: Final = rows("topics", "/admin/v2/{topic}")

COMMANDS: Final = (
    _subscription(
        "peek-messages",
        "GET /position/{number}",
        "Show the next messages of a subscription, which keeps them.",
        work=_peek,
        shows=False,
    ),
    _topic(
        "get-message-by-id",
        "GET /ledger/{ledger}/entry/{entry}",
        "Show one message, or batch, by its id.",
        work=_by_id,
        shows=False,
    ),
    _topic(
        "examine-messages",
        "GET /examinemessage",
        "Show the n-th message of a topic from its beginning or from its end.",
        work=_examine,
        shows=False,
    ),
    _topic(
        "get-message-id",
        "GET /messageid/{time}",
        "Show the id of the first message published at or after a moment.",
        work=_id_at,
    ),
    _topic("last-message-id", "GET /lastMessageId", "Show the id of the last message."),
)
