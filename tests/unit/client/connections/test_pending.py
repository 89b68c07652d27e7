"""A reply that is waited for."""

import pytest

from spark_pulsar.client.connections.pending import PendingReply
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectionLost
from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.wire.protocol import commands


def test_what_is_said_first_stays() -> None:
    # A broker refuses a handshake and closes: the caller may look only after both were noticed.
    refused = PendingReply()
    refused.fail(AuthenticationError("Failed to authenticate"))
    refused.fail(ConnectionLost("closed the connection"))
    refused.resolve(commands.pong())
    with pytest.raises(AuthenticationError, match="Failed to authenticate"):
        refused.result(Deadline(1000, "connecting", "peer"))


def test_an_answer_outlives_its_connection() -> None:
    answered = PendingReply()
    pong = commands.pong()
    answered.resolve(pong)
    answered.fail(ConnectionLost("closed the connection"))
    assert answered.result(Deadline(1000, "connecting", "peer")) is pong
