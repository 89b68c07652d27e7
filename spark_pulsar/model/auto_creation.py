"""The policy of topics that come into being when they are used (TN-7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from spark_pulsar.model.limits import LONG, MAX_PARTITIONS

from .json_values import InvalidPolicy, OutOfRange, members, number, truth


class TooManyPartitions(OutOfRange):
    """Topics would get more partitions than a topic may have."""

    http_status = 406

    def __init__(self, most: int) -> None:
        super().__init__(f"Number of partitions should be less than or equal to {most}", "defaultNumPartitions", most)


@dataclass(frozen=True, slots=True)
class AutoTopicCreation:
    """Whether a topic comes into being when it is used, and with how many partitions (TN-7); 0 is one without."""

    allowed: bool = True
    partitions: int = 0

    @classmethod
    def from_json(cls, value: object) -> Self:
        """`{"allowAutoTopicCreation": true, "topicType": "partitioned", "defaultNumPartitions": 3}`; the type is only
        needed when it is allowed."""
        body = members(value, "autoTopicCreation")
        allowed = truth(body.get("allowAutoTopicCreation", False), "allowAutoTopicCreation")
        kind, partitions = body.get("topicType"), body.get("defaultNumPartitions")
        if not allowed and kind in (None, "", "non-partitioned"):
            return cls(False, 0)
        if kind == "partitioned":
            if partitions is None:
                raise _no_auto_creation("[defaultNumPartitions] cannot be null when the type is partitioned.")
            count = number(partitions, "defaultNumPartitions", LONG)
            if count < 1:
                raise _no_auto_creation("[defaultNumPartitions] cannot be less than 1 for partition type.")
            if count > MAX_PARTITIONS:
                raise TooManyPartitions(MAX_PARTITIONS)
            return cls(allowed, count)
        if kind != "non-partitioned":
            raise _no_auto_creation(f"Unknown topic type [{'null' if kind is None else kind}]")
        if partitions is not None:
            raise _no_auto_creation("[defaultNumPartitions] is not allowed to be set when the type is non-partition.")
        return cls(allowed)

    def to_json(self) -> dict[str, Any]:
        """As answered."""
        answer: dict[str, Any] = {"allowAutoTopicCreation": self.allowed}
        if self.partitions:
            return {**answer, "topicType": "partitioned", "defaultNumPartitions": self.partitions}
        return {**answer, "topicType": "non-partitioned"} if self.allowed else answer


def _no_auto_creation(detail: str) -> InvalidPolicy:
    return InvalidPolicy(f"Invalid configuration for autoTopicCreationOverride. the detail is {detail}")
