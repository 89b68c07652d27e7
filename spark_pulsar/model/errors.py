"""The table of errors: wire code, HTTP status, whether a retry may help, and what breaks.

Inner code raises the class that says what happened; the edges (session, admin API, connector) read the attributes and
decide what to send and what to close. `error_from_wire` is the way back, for clients.

| attribute | meaning | | --- | --- | | `code` | ServerError on the wire | |
`http_status` | status of the admin API's answer | | `retriable` | the same request may succeed later without any change
| | `closes` | how far the damage goes: the request alone, the session (connection), or the topic |
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Final, Literal

Blast = Literal["request", "session", "topic"]
"""Scope of an error: one request, its session, or its topic."""


class ServerError(IntEnum):
    """Error codes of the binary protocol, with Pulsar's names."""

    UnknownError = 0
    MetadataError = 1
    PersistenceError = 2
    AuthenticationError = 3
    AuthorizationError = 4
    ConsumerBusy = 5
    ServiceNotReady = 6
    ProducerBlockedQuotaExceededError = 7
    ProducerBlockedQuotaExceededException = 8
    ChecksumError = 9
    UnsupportedVersionError = 10
    TopicNotFound = 11
    SubscriptionNotFound = 12
    ConsumerNotFound = 13
    TooManyRequests = 14
    TopicTerminatedError = 15
    ProducerBusy = 16
    InvalidTopicName = 17
    IncompatibleSchema = 18
    ConsumerAssignError = 19
    TransactionCoordinatorNotFound = 20
    InvalidTxnStatus = 21
    NotAllowedError = 22
    TransactionConflict = 23
    TransactionNotFound = 24
    ProducerFenced = 25


class PulsarError(Exception):
    """Base of everything that goes wrong in Pulsar's terms. The message is for people and travels on the wire."""

    code: ClassVar[ServerError] = ServerError.UnknownError
    http_status: ClassVar[int] = 500
    retriable: ClassVar[bool] = False
    closes: ClassVar[Blast] = "request"

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    @property
    def message(self) -> str:
        """The text, never empty: an empty one would read as success in the Go client (G5). It can be
        sent whatever it quotes: JSON may hold half of a surrogate pair, which is no character."""
        text = str(self.args[0]) if self.args and self.args[0] else type(self).__name__
        return text.encode(errors="replace").decode()

    def __str__(self) -> str:
        return self.message


class UnknownError(PulsarError):
    """0: anything unmapped; seek failures; last message id of a non-persistent topic."""

    retriable = True


class MetadataError(PulsarError):
    """1: metadata store trouble; unknown consumer in seek, unsubscribe, last id; unsubscribe refused; bad regex."""

    code = ServerError.MetadataError
    retriable = True


class PersistenceError(PulsarError):
    """2: the storage could not open or write; deduplication cannot decide yet."""

    code = ServerError.PersistenceError
    retriable = True
    closes = "topic"


class AuthenticationError(PulsarError):
    """3: bad or missing credentials."""

    code = ServerError.AuthenticationError
    http_status = 401
    closes = "session"


class AuthorizationError(PulsarError):
    """4: the role may not do this."""

    code = ServerError.AuthorizationError
    http_status = 403


class ConsumerBusy(PulsarError):
    """5: exclusive subscription taken; active with another type; too many consumers."""

    code = ServerError.ConsumerBusy
    http_status = 412


class ServiceNotReady(PulsarError):
    """6: topic or subscription is loading, unloading or fenced; the same id is still being created."""

    code = ServerError.ServiceNotReady
    http_status = 503
    retriable = True


class BacklogQuotaHold(PulsarError):
    """7: backlog quota exceeded, policy producer_request_hold; an existing producer waits and tries again."""

    code = ServerError.ProducerBlockedQuotaExceededError
    http_status = 412
    retriable = True


class BacklogQuotaExceeded(PulsarError):
    """8: backlog quota exceeded, policy producer_exception."""

    code = ServerError.ProducerBlockedQuotaExceededException
    http_status = 412


class ChecksumFailed(PulsarError):
    """9: the CRC32C of an entry does not match its bytes."""

    code = ServerError.ChecksumError
    http_status = 400


class UnsupportedVersion(PulsarError):
    """10: the peer's protocol version lacks a feature that this needs."""

    code = ServerError.UnsupportedVersionError
    http_status = 501


class TopicNotFound(PulsarError):
    """11: no such topic, partition, tenant or namespace; also "no schema" in GET_SCHEMA_RESPONSE."""

    code = ServerError.TopicNotFound
    http_status = 404


class SubscriptionNotFound(PulsarError):
    """12: the durable subscription is missing and may not be created."""

    code = ServerError.SubscriptionNotFound
    http_status = 404


class ConsumerNotFound(PulsarError):
    """13: no consumer of that id."""

    code = ServerError.ConsumerNotFound
    http_status = 404


class TooManyRequests(PulsarError):
    """14: too many lookups in flight. Closes the connection of C++ clients; avoid on lookups."""

    code = ServerError.TooManyRequests
    http_status = 429
    retriable = True


class TopicTerminated(PulsarError):
    """15: the topic takes no more messages, for good."""

    code = ServerError.TopicTerminatedError
    http_status = 405


class ProducerBusy(PulsarError):
    """16: producer name in use; topic held by an exclusive producer; empty or reserved subscription name."""

    code = ServerError.ProducerBusy
    http_status = 409


class InvalidTopicName(PulsarError):
    """17: the name does not parse (TN-1 ... TN-4)."""

    code = ServerError.InvalidTopicName
    http_status = 412


class IncompatibleSchema(PulsarError):
    """18: the schema was refused by the compatibility strategy, or is no valid schema."""

    code = ServerError.IncompatibleSchema
    http_status = 409


class ConsumerAssignFailed(PulsarError):
    """19: Key_Shared ranges overlap, are invalid, or are exhausted."""

    code = ServerError.ConsumerAssignError
    http_status = 412


class TransactionCoordinatorNotFound(PulsarError):
    """20: the coordinator is not served here."""

    code = ServerError.TransactionCoordinatorNotFound
    http_status = 404
    retriable = True


class InvalidTransactionStatus(PulsarError):
    """21: the transaction's state does not allow this step."""

    code = ServerError.InvalidTxnStatus
    http_status = 409


class NotAllowed(PulsarError):
    """22: forbidden by state or policy, switched off, not built, over a limit."""

    code = ServerError.NotAllowedError
    http_status = 405


class TransactionConflict(PulsarError):
    """23: the entry is acked by another open transaction."""

    code = ServerError.TransactionConflict
    http_status = 409


class TransactionNotFound(PulsarError):
    """24: unknown, ended or timed-out transaction."""

    code = ServerError.TransactionNotFound
    http_status = 404


class ProducerFenced(PulsarError):
    """25: exclusive access is lost or refused; the producer must close."""

    code = ServerError.ProducerFenced
    http_status = 409


WIRE_ERRORS: Final = tuple(PulsarError.__subclasses__())
"""The class of each wire code, at the index of the code: the classes above, which stand in the order of their codes."""


class MalformedFrame(PulsarError):
    """Bytes that are no frame, or a command that is none. Nothing after them can be trusted: the session just ends."""

    http_status = 400
    closes = "session"


class UnknownCommand(NotAllowed):
    """A well-formed frame with a command type this protocol version does not know (A14)."""

    def __init__(self, message: str = "", command_type: int = -1) -> None:
        super().__init__(message)
        self.command_type = command_type


class CorruptMessage(PulsarError):
    """A stored entry that cannot be read: metadata, compression or declared sizes are wrong."""

    http_status = 412  # its producer's doing, not the broker's


class MalformedBatch(CorruptMessage):
    """The batch payload does not hold the messages that its metadata promises."""


_REFUSED_BY_POLICY: Final = "missing local cluster name in clusters list"
"""Text of a refusal that comes under a code of passing trouble."""


def error_from_wire(code: int, message: str) -> PulsarError:
    """Returns the exception that a peer's error `code` stands for; a code from the future becomes UnknownError.

    A policy that refuses under a code of passing trouble is NotAllowed: no retry helps.
    """
    if _REFUSED_BY_POLICY in message:
        return NotAllowed(message)
    if 0 <= code < len(WIRE_ERRORS):
        return WIRE_ERRORS[code](message)
    return UnknownError(f"error code {code}: {message}")
