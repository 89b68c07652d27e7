"""Letters of a DataFrame: rows that were read by `format("pulsar")` become the rows that its sink writes (LETTER-1).

    def each(batch, batch_id):
        failed = batch.where("not parsed")
        letters = spark_pulsar.retry_letters(failed, subscription="job", delay_ms=30_000, max_redeliver_count=3)
        letters.write.format("pulsar").mode("append").option("service.url", url).save()

Topics and properties are those of the Java client, so that its consumers take part (RLQ-1 ... RLQ-4, DLQ-3, DLQ-4).
Everything is a column expression: a stream's DataFrame may be given too, outside of foreachBatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from spark_pulsar.client.retry_letters import DEFAULT_MAX_REDELIVER_COUNT
from spark_pulsar.connector.errors import OptionError, SchemaError
from spark_pulsar.connector.letters import expressions as sql
from spark_pulsar.connector.schemas.decoding.dead_letters import ERROR as DECODE_ERROR
from spark_pulsar.model.letters import LETTER_PROPERTIES, REAL_TOPIC
from spark_pulsar.model.names import TopicName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEEDED: Final = ("value", "__key", "__topic", "__messageId", "__eventTime", "__messageProperties")
_PAYLOADS: Final = ("binary", "string")


def retry_letters(
    frame: DataFrame,
    *,
    subscription: str,
    delay_ms: int | str,
    max_redeliver_count: int = DEFAULT_MAX_REDELIVER_COUNT,
    retry_letter_topic: str | None = None,
    dead_letter_topic: str | None = None,
    properties: Mapping[str, str] | None = None,
    binary_keys: bool = False,
) -> DataFrame:
    """Returns the retry letters of rows that failed, as rows to write with `format("pulsar")`, which are delivered
    after a delay; a row that was retried `max_redeliver_count` times becomes a dead letter, at once.

    `frame` has the columns of a read, `value` as bytes or text; `__orderingKey` is copied if it is there. `delay_ms`
    may be a SQL expression of the row, such as "1000 * size(__messageProperties)". `properties` are added to each
    letter. Keys are written as text, those that are no UTF-8 as base64 text; with `binary_keys` all as bytes. Raises
    SchemaError, OptionError.
    """
    _check_count(max_redeliver_count)
    retry_topic, dead_topic = _topic(retry_letter_topic), _topic(dead_letter_topic)
    delay = f"greatest(0L, CAST(({delay_ms}) AS bigint))"
    is_dead = f"({sql.TIMES} > {max_redeliver_count})"
    topic = (
        f"if({is_dead}, {sql.letter_topic(subscription, 'DLQ', dead_topic, retry_topic)}, "
        f"{sql.letter_topic(subscription, 'RETRY', retry_topic, retry_topic)})"
    )
    added = {**_texts(properties), **sql.origin(subscription), **sql.retry(delay)}
    return _rows(frame, topic, sql.with_properties(added), binary_keys, f"if({is_dead}, NULL, {delay})")


def dead_letters(
    frame: DataFrame,
    *,
    subscription: str,
    dead_letter_topic: str | None = None,
    retry_letter_topic: str | None = None,
    properties: Mapping[str, str] | None = None,
    binary_keys: bool = False,
) -> DataFrame:
    """Returns the dead letters of rows that failed, as rows to write with `format("pulsar")`.

    `retry_letter_topic` is named where the rows may come from it and it has a name of its own. See `retry_letters` for
    the rest.
    """
    topic = sql.letter_topic(subscription, "DLQ", _topic(dead_letter_topic), _topic(retry_letter_topic))
    added = {**_texts(properties), **sql.origin(subscription)}
    return _rows(frame, topic, sql.with_properties(added), binary_keys)


def replayed_letters(frame: DataFrame, *, binary_keys: bool = False) -> DataFrame:
    """Returns the messages that letters are copies of, as rows to write with `format("pulsar")`: each goes to its
    REAL_TOPIC, with key, event time and its own properties (LETTER-4).

    `__topic` is null for a row without that property, and the sink refuses it. See `retry_letters` for the rest.
    """
    topic = f"try_element_at({sql.PROPERTIES}, '{REAL_TOPIC}')"
    return _rows(frame, topic, sql.without_properties((*LETTER_PROPERTIES, DECODE_ERROR)), binary_keys)


def _rows(
    frame: DataFrame, topic: str, properties: str, binary_keys: bool, deliver_after_ms: str | None = None
) -> DataFrame:
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    missing = [name for name in _NEEDED if name not in types]
    if missing:
        raise SchemaError(
            f"letters need the columns {', '.join(_NEEDED)} of the read; missing: {', '.join(missing)}. A topic with a "
            "schema has its payload in value with useTopicSchema false, or where .schema(...) declares it as binary"
        )
    if types["value"] not in _PAYLOADS:
        raise SchemaError(
            f"letters need the payload as it was sent, and value is {types['value']}: read it with useTopicSchema false"
        )
    is_text = types["__key"] == "string"
    key = "`__key`" if binary_keys or is_text else sql.TEXT_KEY
    columns = ["`value`", f"{key} AS `__key`", "`__eventTime`"]
    columns += ["`__orderingKey`"] if "__orderingKey" in types else []
    columns += [f"{topic} AS `__topic`", f"{properties} AS `__messageProperties`"]
    columns += [] if deliver_after_ms is None else [f"{deliver_after_ms} AS `__deliverAfterMs`"]
    return frame.selectExpr(*columns)


def _texts(properties: Mapping[str, str] | None) -> dict[str, str]:
    return {name: sql.text(value) for name, value in (properties or {}).items()}


def _topic(name: str | None) -> str | None:
    return None if name is None else TopicName.parse(name).base.full


def _check_count(max_redeliver_count: int) -> None:
    if max_redeliver_count < 1:
        raise OptionError(f"max_redeliver_count = {max_redeliver_count}: expected 1 or more; dead_letters retries none")
