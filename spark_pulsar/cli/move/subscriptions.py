"""Subscriptions of a partition with their exact state, at the copies of their entries (MOVE-7)."""

from __future__ import annotations

import threading
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from spark_pulsar.cli.move.places import Partition, fill
from spark_pulsar.cli.move.plan import path_of
from spark_pulsar.cli.move.sides import Side, described
from spark_pulsar.cli.values import segment
from spark_pulsar.client.copying.copier import CopiedPartition
from spark_pulsar.client.copying.position_map import PositionMap
from spark_pulsar.client.copying.subscription_copy import (
    CursorState,
    StateUnknown,
    acknowledgements_of,
    last_unacknowledged,
)
from spark_pulsar.client.reader_types import SubscriptionType
from spark_pulsar.client.rest import RestError
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe

_ATTEMPTS: Final = 20
_PAUSE: Final = threading.Event()
_TYPES: Final[dict[str, SubscriptionType]] = {
    "Shared": CommandSubscribe.Shared,
    "Failover": CommandSubscribe.Failover,
    "Key_Shared": CommandSubscribe.Key_Shared,
}


class MovedSubscription(NamedTuple):
    """The outcome of one subscription of one partition."""

    partition: str
    name: str
    kind: str
    acknowledged: int
    """Copied entries that are acknowledged."""
    holes: int
    """Ranges of them behind the mark-delete position."""
    parts: int
    """Batches of which a part is acknowledged."""
    difference: str

    def row(self) -> dict[str, Any]:
        """Returns the row of the report."""
        return {
            "topic": self.partition,
            "subscription": self.name,
            "type": self.kind,
            "acknowledged": self.acknowledged,
            "holes": self.holes,
            "parts": self.parts,
            "result": self.difference or "equal",
        }


def move_subscriptions(
    source: Side, target: Side, copied: CopiedPartition, positions: PositionMap
) -> list[MovedSubscription]:
    """Gives each subscription of a partition its state of now. Raises RestError."""
    partition = Partition(copied.route.source)
    fill(source, partition)
    has_batches = copied.comparison is not None and copied.comparison.messages > copied.comparison.entries
    moved = []
    for name, cursor in partition.cursors.items():
        try:
            moved.append(_moved(source, target, partition.name, name, cursor, positions, has_batches=has_batches))
        except (PulsarError, RestError) as error:
            said = described(error) if isinstance(error, RestError) else str(error)
            moved.append(MovedSubscription(partition.name, name, cursor["stats"].get("type", ""), 0, 0, 0, said))
    return moved


def _moved(
    source: Side,
    target: Side,
    topic: str,
    name: str,
    cursor: dict[str, Any],
    positions: PositionMap,
    *,
    has_batches: bool,
) -> MovedSubscription:
    kind = cursor["stats"].get("type", "None")
    state = CursorState.of_json(name, cursor)
    acknowledged = state.acknowledged(positions)
    is_connected = bool(cursor["stats"].get("consumers"))
    parts: dict[Position, int] = {}
    last = last_unacknowledged(acknowledged, positions.entries)
    if has_batches and last is not None and not is_connected:
        parts = source.client.partly_acknowledged(topic, name, positions.nth(last)[0])
    wanted = acknowledgements_of(acknowledged, parts, positions)
    properties = cursor["stats"].get("subscriptionProperties") or {}
    if properties:
        _set_properties(target, topic, name, properties)
    by = _TYPES.get(kind, CommandSubscribe.Exclusive)
    target.client.acknowledge_entries(topic, name, by, wanted.through, wanted.entries, wanted.parts)
    difference = _difference(target, topic, name, acknowledged, properties, positions)
    if not difference and wanted.parts and last is not None:
        difference = _difference_of_parts(target, topic, name, wanted.parts, positions.nth(last)[1])
    if not difference and has_batches and last is not None and is_connected:
        difference = "consumers are connected in the source: acknowledged parts of batches are not known"
    count = sum(end - first for first, end in acknowledged)
    holes = sum(1 for first, _ in acknowledged if first > 0)
    return MovedSubscription(topic, name, kind, count, holes, len(wanted.parts), difference)


def _set_properties(target: Side, topic: str, name: str, properties: dict[str, str]) -> None:
    """Sets the properties of a subscription. An Apache Pulsar that stores its cursor at the same moment answers 500."""
    for last in (False,) * _ATTEMPTS + (True,):
        try:
            target.call("PUT", f"{path_of(topic)}/subscription/{segment(name)}/properties", properties)
            return
        except RestError as error:
            if last or error.status != HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            _PAUSE.wait(0.1)


def _difference(
    target: Side,
    topic: str,
    name: str,
    acknowledged: list[tuple[int, int]],
    properties: dict[str, str],
    positions: PositionMap,
) -> str:
    copy = Partition(topic)
    fill(target, copy)
    if name not in copy.cursors:
        return "the target does not have it"
    try:
        present = CursorState.of_json(name, copy.cursors[name]).acknowledged(positions, of_target=True)
    except StateUnknown as error:
        return str(error)
    if present != acknowledged:
        count = sum(end - first for first, end in present)
        return f"{count} entries are acknowledged in the target, or not the same ones"
    if (copy.cursors[name]["stats"].get("subscriptionProperties") or {}) != properties:
        return "its properties differ"
    return ""


def _difference_of_parts(target: Side, topic: str, name: str, parts: dict[Position, int], last: Position) -> str:
    present = target.client.partly_acknowledged(topic, name, last)
    missing = len([position for position, mask in parts.items() if present.get(position) != mask])
    return f"{missing} batches are not acknowledged in the same parts" if missing else ""
