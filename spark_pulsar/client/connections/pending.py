"""Replies that are still to come."""

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_pulsar.client.connections.gathered_writes import write_gathered
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import AnswerOverdue
from spark_pulsar.model.errors import PulsarError

if TYPE_CHECKING:
    from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand


class PendingReply:
    """One request on its way: the reader thread resolves it, the caller waits for it. The first outcome stays: that the
    connection is lost as well must not hide why the broker closed it."""

    __slots__ = ("_abandon", "_arrival", "_error", "_patience", "_reply", "consumer_id", "kind")

    def __init__(
        self,
        consumer_id: int | None = None,
        abandon: Callable[[], None] | None = None,
        patience: Deadline | None = None,
        kind: int | None = None,
    ) -> None:
        self._abandon = abandon
        self._patience = patience
        self._arrival = threading.Lock()  # locked until there is an outcome: an Event costs ten times as much
        self._arrival.acquire()
        self._reply: BaseCommand | None = None
        self._error: PulsarError | None = None
        self.consumer_id = consumer_id
        """The consumer the request is about: when the broker closes it, no answer will come."""
        self.kind = kind
        """The type of a good answer; None for any."""

    def resolve(self, reply: "BaseCommand") -> None:
        """The reply has arrived."""
        if not self._is_settled:
            self._reply = reply
            self._wake()

    def fail(self, error: PulsarError) -> None:
        """No reply will arrive, or the reply is an error."""
        if not self._is_settled:
            self._error = error
            self._wake()

    @property
    def _is_settled(self) -> bool:
        return self._reply is not None or self._error is not None

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # another thread has noticed at the same time that the connection broke
            self._arrival.release()

    def result(self, deadline: Deadline) -> "BaseCommand":
        """Returns the reply; first writes what this thread has gathered, which may be its request.

        Raises the broker's error, ConnectionLost, AnswerOverdue when the patience with this one request is over, or
        OperationTimeout at the deadline of the whole operation.
        """
        patience = self._patience
        if patience is not None and patience.left_ms() >= deadline.left_ms():
            patience = None
        if not self._is_settled:
            write_gathered()
        if self._arrival.acquire(timeout=(patience or deadline).left_ms() / 1000):
            self._wake()  # a second caller finds the outcome, too
        else:
            if self._abandon is not None:
                self._abandon()
            if patience is not None:
                raise AnswerOverdue(patience.what, patience.where, patience.timeout_ms)
            raise deadline.error()
        if self._error is not None:
            raise self._error
        assert self._reply is not None
        return self._reply
