"""`spark-pulsar admin topics …` that show messages: peek, by id, examine, last id, id by time."""

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from spark_pulsar.cli.access.topics import Topic
from spark_pulsar.cli.admin.command import Command
from spark_pulsar.cli.admin.subscriptions import Subscription, subscription_path
from spark_pulsar.cli.values import topic_path
from spark_pulsar.model.ids import MessageId
from spark_pulsar.wire.pulsar_api_pb2 import SingleMessageMetadata

_TOPIC: Final = "/admin/v2/{topic}"
_BYTES_A_LINE = 16


def _peek(
    ctx: typer.Context,
    topic: Topic,
    subscription: Subscription,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Entries to show; a batch is one.")] = 1,
) -> None:
    for number in range(1, count + 1):
        answer = ctx.obj.fetch(f"{subscription_path(topic, subscription)}/position/{number}", may_be_missing=True)
        if answer is None:
            return
        _print_entry(*answer, is_first=number == 1)


def _by_id(
    ctx: typer.Context,
    topic: Topic,
    ledger: Annotated[int, typer.Option("--ledgerId", "-l")],
    entry: Annotated[int, typer.Option("--entryId", "-e")],
) -> None:
    _print_entry(*ctx.obj.fetch(f"{topic_path(topic)}/ledger/{ledger}/entry/{entry}"), is_first=True)


def _examine(
    ctx: typer.Context,
    topic: Topic,
    start: Annotated[str, typer.Option("--initialPosition", "-i", help="earliest or latest")] = "latest",
    number: Annotated[int, typer.Option("--messagePosition", "-m", min=1, help="The n-th from there.")] = 1,
) -> None:
    query = f"initialPosition={start}&messagePosition={number}"
    _print_entry(*ctx.obj.fetch(f"{topic_path(topic)}/examinemessage?{query}"), is_first=True)


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


def _print_entry(headers: Mapping[str, str], body: bytes, *, is_first: bool) -> None:
    number_in_batch = headers.get("x-pulsar-num-batch-message")
    message_id = MessageId.parse(headers.get("x-pulsar-message-id", ""))
    properties = json.loads(headers.get("x-pulsar-property", "{}"))
    lines = [f"Publish time: {headers.get('x-pulsar-publish-time', '')}"]
    if "x-pulsar-event-time" in headers:
        lines.append(f"Event time: {headers['x-pulsar-event-time']}")
    if "x-pulsar-partition-key" in headers:
        lines.append(f"Key: {headers['x-pulsar-partition-key']}")
    if number_in_batch is None:
        _print(f"Message ID: {message_id}", lines, properties, body, is_first=is_first)
        return
    for index, (single, payload) in enumerate(_unpacked(body, int(number_in_batch))):
        own = {pair.key: pair.value for pair in single.properties}
        keyed = [*lines, f"Key: {single.partition_key}"] if single.HasField("partition_key") else lines
        name = f"Batch Message ID: {message_id._replace(batch_index=index)}"
        _print(name, keyed, own, payload, is_first=is_first and index == 0)


def _unpacked(body: bytes, count: int) -> Iterator[tuple[SingleMessageMetadata, bytes]]:
    """Yields metadata and payload of each message of a batch."""
    at = 0
    for _ in range(count):
        size = int.from_bytes(body[at : at + 4], "big")
        single = SingleMessageMetadata.FromString(body[at + 4 : at + 4 + size])
        at += 4 + size
        yield single, body[at : at + single.payload_size]
        at += single.payload_size


def _print(name: str, lines: list[str], properties: Mapping[str, str], payload: bytes, *, is_first: bool) -> None:
    out = [] if is_first else ["-" * 73]
    out += [name, *lines, "Properties:", *(f"{key}    {value}" for key, value in properties.items())]
    for at in range(0, len(payload), _BYTES_A_LINE):
        part = payload[at : at + _BYTES_A_LINE]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        out.append(f"{at:08x}  {part.hex(' '):<{3 * _BYTES_A_LINE}} |{text}|")
    sys.stdout.write("\n".join(out) + "\n")


COMMANDS: Final = (
    Command(
        "topics peek-messages",
        "GET",
        f"{_TOPIC}/subscription/{{subscription}}/position/{{number}}",
        "Show the next messages of a subscription, which keeps them.",
        work=_peek,
        shows=False,
    ),
    Command(
        "topics get-message-by-id",
        "GET",
        f"{_TOPIC}/ledger/{{ledger}}/entry/{{entry}}",
        "Show one message, or batch, by its id.",
        work=_by_id,
        shows=False,
    ),
    Command(
        "topics examine-messages",
        "GET",
        f"{_TOPIC}/examinemessage",
        "Show the n-th message of a topic from its beginning or from its end.",
        work=_examine,
        shows=False,
    ),
    Command(
        "topics get-message-id",
        "GET",
        f"{_TOPIC}/messageid/{{time}}",
        "Show the id of the first message published at or after a moment.",
        work=_id_at,
    ),
    Command("topics last-message-id", "GET", f"{_TOPIC}/lastMessageId", "Show the id of the last message."),
)
