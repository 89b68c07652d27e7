"""Who may join a subscription: only consumers of the types that the topic's policies enable (SUB-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe

from .comparing import Violation

if TYPE_CHECKING:
    from .judge import Judge


class Admission:
    """Hears SUBSCRIBE and its answers, on the connections of one core."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._asked: dict[tuple[int, int], bool] = {}
        """Whether the type was enabled when it was asked for, by session and request id."""

    def ask(self, session_id: int, command: CommandSubscribe) -> None:
        """SUBSCRIBE of a consumer that is not there."""
        name = CommandSubscribe.SubType.Name(command.subType)
        enabled = self._judge.rules.subscription_types(command.topic)
        self._asked[session_id, command.request_id] = name in enabled

    def succeed(self, session_id: int, request_id: int) -> None:
        """SUCCESS."""
        if not self._asked.pop((session_id, request_id), True):
            raise Violation(f"request {request_id} of {session_id}: a consumer of a disabled type may join (SUB-3)")

    def refuse(self, session_id: int, request_id: int, message: str) -> None:
        """ERROR."""
        if self._asked.pop((session_id, request_id), False) and "doesn't support" in message:
            raise Violation(f"request {request_id} of {session_id}: {message}, but it does (SUB-3)")
