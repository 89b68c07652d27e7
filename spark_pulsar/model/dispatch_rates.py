"""Policies of how fast subscriptions are served and how often a consumer may subscribe (SUB-6, SUB-7).

What was set is answered as it was written; the properties say what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from spark_pulsar.model.limits import INT, LONG

from .json_values import members, number, truth

DISPATCH_RATE: Final = "dispatchRate"
"""Member of what is set for one subscription."""


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """What may be sent to consumers in a period (SUB-7); 0 and below is no limit."""

    messages: int = 0
    bytes: int = 0
    period_s: int = 1
    is_relative: bool = False
    """Whether what was published in a period may be sent beside; not where there is no limit."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The members; what is absent is 0."""
        body = {} if value is None else members(value, "dispatchRate")
        messages, size, period_s = (
            number(body.get(name, 0), name, most)
            for name, most in (
                ("dispatchThrottlingRateInMsg", INT),
                ("dispatchThrottlingRateInByte", LONG),
                ("ratePeriodInSecond", INT),
            )
        )
        relative = body.get("relativeToPublishRate")
        return cls(messages, size, period_s, relative is not None and truth(relative, "relativeToPublishRate"))

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.messages > 0 or self.bytes > 0

    @property
    def seconds(self) -> int:
        """The period: one second if none is written."""
        return max(1, self.period_s)

    def to_json(self) -> dict[str, Any]:
        """As answered."""
        return {
            "dispatchThrottlingRateInMsg": self.messages,
            "dispatchThrottlingRateInByte": self.bytes,
            "relativeToPublishRate": self.is_relative,
            "ratePeriodInSecond": self.period_s,
        }


@dataclass(frozen=True, slots=True)
class SubscribeRate:
    """How often one consumer may subscribe to a topic in a period (SUB-6); 0 and below is no limit."""

    times: int = -1
    period_s: int = 30

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The two members; what is absent is -1, and a period of 30 seconds."""
        body = {} if value is None else members(value, "subscribeRate")
        times, period_s = (
            number(body.get(name, otherwise), name)
            for name, otherwise in (("subscribeThrottlingRatePerConsumer", -1), ("ratePeriodInSecond", 30))
        )
        return cls(times, period_s)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.times > 0

    @property
    def seconds(self) -> int:
        """The period: thirty seconds if none is written."""
        return self.period_s if self.period_s > 0 else 30

    def to_json(self) -> dict[str, Any]:
        """As answered."""
        return {"subscribeThrottlingRatePerConsumer": self.times, "ratePeriodInSecond": self.period_s}


def rates_by_name(value: object) -> Mapping[str, DispatchRate]:
    """Dispatch rates of single subscriptions: `{"NAME": {"dispatchRate": {...}}}`."""
    found = members(value, "subscriptionPolicies")
    return {name: DispatchRate.from_json(members(each, name).get(DISPATCH_RATE)) for name, each in found.items()}
