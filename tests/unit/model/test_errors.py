"""The error table: every wire code once, with a status, a class and a reach."""

import pickle

import pytest

from spark_pulsar.model import errors
from spark_pulsar.model.errors import WIRE_ERRORS, PulsarError, ServerError, error_from_wire
from spark_pulsar.wire import pulsar_api_pb2 as api
from tests.cases import cases

# Of each error: code, HTTP status, retriable, what it takes down
TABLE = {
    "UnknownError": (0, 500, True, "request"),
    "MetadataError": (1, 500, True, "request"),
    "PersistenceError": (2, 500, True, "topic"),
    "AuthenticationError": (3, 401, False, "session"),
    "AuthorizationError": (4, 403, False, "request"),
    "ConsumerBusy": (5, 412, False, "request"),
    "ServiceNotReady": (6, 503, True, "request"),
    "BacklogQuotaHold": (7, 412, True, "request"),
    "BacklogQuotaExceeded": (8, 412, False, "request"),
    "ChecksumFailed": (9, 400, False, "request"),
    "UnsupportedVersion": (10, 501, False, "request"),
    "TopicNotFound": (11, 404, False, "request"),
    "SubscriptionNotFound": (12, 404, False, "request"),
    "ConsumerNotFound": (13, 404, False, "request"),
    "TooManyRequests": (14, 429, True, "request"),
    "TopicTerminated": (15, 405, False, "request"),
    "ProducerBusy": (16, 409, False, "request"),
    "InvalidTopicName": (17, 412, False, "request"),
    "IncompatibleSchema": (18, 409, False, "request"),
    "ConsumerAssignFailed": (19, 412, False, "request"),
    "TransactionCoordinatorNotFound": (20, 404, True, "request"),
    "InvalidTransactionStatus": (21, 409, False, "request"),
    "NotAllowed": (22, 405, False, "request"),
    "TransactionConflict": (23, 409, False, "request"),
    "TransactionNotFound": (24, 404, False, "request"),
    "ProducerFenced": (25, 409, False, "request"),
}


def test_every_code_once() -> None:
    assert [error.code for error in WIRE_ERRORS] == list(ServerError)
    assert {
        error.__name__: (error.code, error.http_status, error.retriable, error.closes) for error in WIRE_ERRORS
    } == (TABLE)


def test_codes_are_those_of_the_protocol() -> None:
    assert {code.name: code.value for code in ServerError} == dict(api.ServerError.items())


@cases("code", list(ServerError))
def test_there_and_back(code: ServerError) -> None:
    error = error_from_wire(code, "why")
    assert type(error) is WIRE_ERRORS[code]
    assert (str(error), error.message, error.code) == ("why", "why", code)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.message) == (type(error), "why")


@pytest.mark.parametrize("code", [-1, 26, 99])
def test_a_code_of_the_future_is_unknown(code: int) -> None:
    error = error_from_wire(code, "new")
    assert type(error) is errors.UnknownError
    assert str(code) in error.message


def test_the_text_is_never_empty() -> None:
    # covers G5: the Go client takes an empty text for success.
    assert errors.TopicNotFound().message == "TopicNotFound"
    assert errors.TopicNotFound("").message == "TopicNotFound"


def test_errors_without_a_code_of_their_own() -> None:
    own = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, PulsarError) and kind not in (PulsarError, *WIRE_ERRORS)
    }
    assert set(own) == {"MalformedFrame", "UnknownCommand", "CorruptMessage", "MalformedBatch"}
    assert own["MalformedFrame"].closes == "session"
    assert all(kind.closes == "request" for name, kind in own.items() if name != "MalformedFrame")
    assert pickle.loads(pickle.dumps(errors.UnknownCommand("no", 70))).message == "no"


def test_a_message_that_quotes_half_a_surrogate_pair_can_be_sent() -> None:
    # JSON may hold one, and a refusal of it quotes it: the wire has UTF-8 alone.
    error = errors.IncompatibleSchema("unknown type \ud800")
    assert error.message == "unknown type ?"
    assert api.CommandError(request_id=1, error=error.code.value, message=error.message).SerializeToString()
