"""From words and JSON to positions: where a read starts and where it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.offsets import EARLIEST, ReadPosition, parse_position
from spark_pulsar.connector.options import Endpoint


def end_positions(client: PulsarClient, topics: Sequence[str]) -> dict[str, ReadPosition]:
    """The position after the last message of each topic partition; `EARLIEST` for an empty one."""
    return {topic: ReadPosition.of(message_id) for topic, message_id in client.end_positions(topics).items()}


def resolve(client: PulsarClient, topics: Sequence[str], endpoint: Endpoint, option: str) -> dict[str, ReadPosition]:
    """Positions of `topics` for a word, a publish time, or for JSON, which must name exactly these.

    At a time: of the first entry published then or later, the end where there is none. Raises OffsetError.
    """
    if endpoint == "earliest":
        return dict.fromkeys(topics, EARLIEST)
    if endpoint == "latest":
        return end_positions(client, topics)
    if isinstance(endpoint, int):
        return {topic: ReadPosition.of(at) for topic, at in client.positions_at_time(topics, endpoint).items()}
    assert isinstance(endpoint, Mapping)
    missing = sorted(set(topics) - set(endpoint))
    if missing:
        raise OffsetError(f"{option} must name every partition; missing: {', '.join(missing)}")
    unknown = sorted(set(endpoint) - set(topics))
    if unknown:
        raise OffsetError(f"{option} names what is not read: {', '.join(unknown)} (read are: {', '.join(topics)})")
    latest = end_positions(client, [topic for topic in topics if endpoint[topic] == "latest"])
    return {topic: latest[topic] if topic in latest else parse_position(endpoint[topic]) for topic in topics}
