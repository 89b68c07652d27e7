"""Message ids as `startingOffsets`: to read on from, or again from, messages that were seen before. (What the words
`earliest` and `latest` stand for, `endpoints` finds, OFFSET-2.)"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.offsets.checkpoints import committed_positions
from spark_pulsar.connector.options.serialized_ids import message_id_data, position_of
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.model.arguments import naming_arguments
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import InvalidMessageId, MessageId, unsigned
from spark_pulsar.wire.pulsar_api_pb2 import MessageIdData

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@naming_arguments()
def starting_offsets(
    message_ids: Mapping[str, Any] | None = None,
    *,
    after: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    spark: SparkSession | None = None,
) -> str:
    """Returns the text for the option `startingOffsets` that starts each topic partition at a message, or `after` it
    (OFFSET-13), or where the query of a `checkpoint` stands (OFFSET-25).

    A message id is what the column `__messageId` holds (bytes), one of the official Python client, or its text,
    `ledger:entry:partition:batch`. The first message of a topic or its end are named by `earliest` and `latest`, which
    are passed on.

    A checkpoint is the directory of a query of this connector or of StreamNative's; a new query with another checkpoint
    then begins after the last micro-batch that is committed, or, where none is, at the start of the first one. Any
    address that Spark reads is read with the session `spark`, or with fsspec. Raises OffsetError for a text that is no
    message id, and for a directory that is no checkpoint of a query on Pulsar.
    """
    if (message_ids is None) == (checkpoint is None):
        raise OffsetError("give either message ids or a checkpoint")
    if checkpoint is not None:
        positions = committed_positions(_place(checkpoint), _session(spark))
        return json.dumps({topic: _text_of(topic, positions[topic]) for topic in sorted(positions)})
    if not isinstance(message_ids, Mapping) or not message_ids:
        raise OffsetError(f'message_ids is {message_ids!r}: give a dictionary, such as {{"orders": "earliest"}}')
    return json.dumps({_full(topic): _text(topic, at, after) for topic, at in message_ids.items()})


def _full(topic: object) -> str:
    if not isinstance(topic, str):
        raise OffsetError(f"{topic!r} is no name of a topic: give a text")
    try:
        return TopicName.parse(topic).full
    except InvalidTopicName as error:
        raise OffsetError(str(error)) from error


def _place(checkpoint: object) -> str:
    if not isinstance(checkpoint, str | os.PathLike):
        raise OffsetError(f"checkpoint is {checkpoint!r}: give the directory of a query, as text")
    return str(os.fspath(checkpoint))


def _session(spark: Any) -> SparkSession | None:
    if spark is not None and not hasattr(spark, "read"):
        raise OffsetError(f"spark is {spark!r}: give a SparkSession, or leave it out")
    session: SparkSession | None = spark
    return session


def _text_of(topic: str, position: ReadPosition) -> str:
    if position == EARLIEST:
        return "earliest"
    return str(position.message_id._replace(partition=TopicName.parse(topic).partition))


def _text(topic: str, message_id: Any, after: bool) -> str:
    if isinstance(message_id, str) and message_id.lower() in ("earliest", "latest"):
        return message_id.lower()
    if isinstance(message_id, str) and message_id.count(":") == 2:
        raise OffsetError(f"{topic}: {message_id!r} is no whole message id: write ledger:entry:partition:batch")
    data = _data_of_text(topic, message_id) if isinstance(message_id, str) else _data_of(topic, message_id)
    return _text_of(topic, position_of(data, after=after))


def _data_of_text(topic: str, text: str) -> MessageIdData:
    try:
        wanted = MessageId.parse(text)
    except InvalidMessageId as error:
        raise OffsetError(f"{topic}: {error}; earliest and latest are the ends") from error
    return MessageIdData(
        ledgerId=unsigned(wanted.ledger_id), entryId=unsigned(wanted.entry_id), batch_index=wanted.batch_index
    )


def _data_of(topic: str, message_id: Any) -> MessageIdData:
    serialized = message_id.serialize() if hasattr(message_id, "serialize") else message_id
    if not isinstance(serialized, bytes | bytearray | memoryview):
        raise OffsetError(
            f"{topic}: {message_id!r} is no message id: give the bytes of __messageId, a pulsar.MessageId, a text "
            "ledger:entry:partition:batch, earliest or latest"
        )
    return message_id_data(topic, bytes(serialized))
