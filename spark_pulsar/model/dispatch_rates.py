"""Policies of how fast subscriptions are served and how often a consumer may subscribe (SUB-6, SUB-7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from spark_pulsar.model.limits import INT, LONG

from .policies import members, number


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """What may be sent to consumers in a period (SUB-7); 0 and below is no limit."""

    messages: int = 0
    bytes: int = 0
    period_s: int = 1

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The members; what is absent is no limit, and a period of one second."""
        body = {} if value is None else members(value, "dispatchRate")
        messages, size = (
            number(body.get(f"dispatchThrottlingRateIn{what}", 0), f"dispatchThrottlingRateIn{what}", most)
            for what, most in (("Msg", INT), ("Byte", LONG))
        )
        return cls(messages, size, _period(body, 1))

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.messages > 0 or self.bytes > 0

    def to_json(self) -> dict[str, Any]:
        """As answered."""
        return {
            "dispatchThrottlingRateInMsg": self.messages,
            "dispatchThrottlingRateInByte": self.bytes,
            "relativeToPublishRate": False,
            "ratePeriodInSecond": self.period_s,
        }


@dataclass(frozen=True, slots=True)
class SubscribeRate:
    """How often one consumer may subscribe to a topic in a period (SUB-6); 0 and below is no limit."""

    times: int = 0
    period_s: int = 30

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The two members; what is absent is no limit, and a period of 30 seconds."""
        body = {} if value is None else members(value, "subscribeRate")
        name = "subscribeThrottlingRatePerConsumer"
        return cls(number(body.get(name, 0), name), _period(body, 30))

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.times > 0

    def to_json(self) -> dict[str, Any]:
        """As answered."""
        return {"subscribeThrottlingRatePerConsumer": self.times, "ratePeriodInSecond": self.period_s}


def _period(body: Any, otherwise: int) -> int:
    """In seconds."""
    period_s = number(body.get("ratePeriodInSecond", otherwise), "ratePeriodInSecond")
    return period_s if period_s > 0 else otherwise
