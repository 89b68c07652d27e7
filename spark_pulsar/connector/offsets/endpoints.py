"""Endpoints of a read: start and end positions, resolved from words, times and JSON. The end of one read is the start
of another, without a message missed or read twice (READ-47)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.options.offsets import Endpoint, SomePositions, Time
from spark_pulsar.connector.options.options import ERROR, LATEST, Options
from spark_pulsar.connector.positions import EARLIEST, ReadPosition, parse_position
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.names import TopicName

_NO_END: Final = ReadPosition(2**62, 0)


def end_positions(client: PulsarClient, topics: Sequence[str]) -> dict[str, ReadPosition]:
    """Returns the position after the last message of each topic partition; `EARLIEST` for an empty one."""
    return {topic: ReadPosition.of(message_id) for topic, message_id in client.end_positions(topics).items()}


def end_positions_of_each(
    client: PulsarClient, topics: Collection[str], timeout_ms: int | None = None
) -> dict[str, ReadPosition]:
    """`end_positions` of those topic partitions that exist; over after `timeout_ms` if given."""
    ends = client.end_positions_of_each(topics, timeout_ms)
    return {topic: ReadPosition.of(end) for topic, end in ends.items() if not isinstance(end, TopicNotFound)}


def starting_positions(
    client: PulsarClient, topics: Sequence[str], options: Options, default: Endpoint
) -> dict[str, ReadPosition]:
    """Resolves the start of a new query in each of `topics` (OFFSET-2, OFFSET-3). Raises OffsetError for JSON that does
    not name exactly these; retry letter topics need not be named, and are read from their start then."""
    start = options.starting_offsets if options.starting_time is None else options.starting_time
    unnamed = _retry_letters_unnamed(topics, options, start) if isinstance(start, Mapping) else []
    named = [topic for topic in topics if topic not in unnamed]
    if options.starting_time is not None:
        positions = _at_time(client, named, options.starting_time, "startingTime")
        if options.starting_offsets_by_timestamp_strategy == ERROR:
            _check_later_messages(client, positions)
    else:
        positions = _resolve(client, named, options.starting_offsets or default, "startingOffsets", default)
    return positions | dict.fromkeys(unnamed, EARLIEST)


def _retry_letters_unnamed(topics: Sequence[str], options: Options, named: Collection[str]) -> list[str]:
    letters = options.retry_letter_topics
    return [topic for topic in topics if topic not in named and TopicName.parse(topic).base.full in letters]


def ending_positions(client: PulsarClient, topics: Sequence[str], options: Options) -> dict[str, ReadPosition]:
    """Resolves the end of a batch read in each of `topics`, exclusive (READ-24, OFFSET-3). Raises OffsetError as
    `starting_positions`."""
    if options.ending_time is not None:
        return _at_time(client, topics, options.ending_time, "endingTime")
    return _resolve(client, topics, options.ending_offsets or "latest", "endingOffsets", "latest")


def _resolve(
    client: PulsarClient, topics: Sequence[str], endpoint: Endpoint, option: str, default: Endpoint
) -> dict[str, ReadPosition]:
    if endpoint == "earliest":
        return dict.fromkeys(topics, EARLIEST)
    if endpoint == "latest":
        return end_positions(client, topics)
    assert isinstance(endpoint, Mapping)
    if isinstance(endpoint, SomePositions) and isinstance(default, str):
        endpoint = {**dict.fromkeys(topics, str(default)), **endpoint}
    _check_names(topics, endpoint, option)
    latest = end_positions(client, [topic for topic in topics if endpoint[topic] == "latest"])
    return {topic: latest[topic] if topic in latest else parse_position(endpoint[topic]) for topic in topics}


def _at_time(client: PulsarClient, topics: Sequence[str], time: Time, option: str) -> dict[str, ReadPosition]:
    if isinstance(time, Mapping):
        _check_names(topics, time, option)
        times = time
    else:
        times = dict.fromkeys(topics, time)
    by_topic: dict[str, ReadPosition] = {}
    for publish_time_ms in set(times.values()):
        at_once = [topic for topic in topics if times[topic] == publish_time_ms]
        positions = client.positions_at_time(at_once, publish_time_ms)
        by_topic.update((topic, ReadPosition.of(position)) for topic, position in positions.items())
    return by_topic


def _check_later_messages(client: PulsarClient, starts: Mapping[str, ReadPosition]) -> None:
    ends = end_positions(client, list(starts))
    if none := sorted(topic for topic, at in starts.items() if at >= ends[topic]):
        raise OffsetError(
            f"no message at or after startingTime in {', '.join(none)}, which startingOffsetsByTimestampStrategy = "
            f"{ERROR} makes an error; {LATEST} reads what comes"
        )


def _check_names(topics: Sequence[str], named: Collection[str], option: str) -> None:
    missing = sorted(set(topics) - set(named))
    if missing:
        raise OffsetError(f"{option} must name every partition; missing: {', '.join(missing)}")
    unknown = sorted(set(named) - set(topics))
    if unknown:
        raise OffsetError(f"{option} names what is not read: {', '.join(unknown)} (read are: {', '.join(topics)})")


def compacted_ends(ends: Mapping[str, ReadPosition]) -> dict[str, ReadPosition]:
    """Returns the ends of compacted reads (READ-20): a topic that seems empty may have a compacted view, which is read
    from the beginning."""
    return {topic: _NO_END if end == EARLIEST else end for topic, end in ends.items()}
