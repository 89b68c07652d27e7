"""Opens and closes connections: handshake, which ends in time (SEC-26), keep-alive, liveness of a silent peer (A3, A15,
SUB-10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from spark_pulsar.broker.entities.session import Session
from spark_pulsar.broker.security.authentication import REFUSED
from spark_pulsar.broker.turn.effects import ResumeReading
from spark_pulsar.model.errors import AuthenticationError, PulsarError
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import CommandAuthResponse, CommandConnect, FeatureFlags

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.turn.events import SessionClosed, SessionOpened, WritingPaused, WritingResumed


_Command = TypeVar("_Command")

SERVER_VERSION = "Pulsar Server 4.0.8 (spark-pulsar 0.1.0)"
"""Server version in CONNECTED: the Pulsar version whose behaviour the broker keeps, and its own."""

MAX_LIVENESS_WAITERS: Final = 1_000
"""Calls that may wait for one liveness check; further ones take the peer for alive."""

MAX_VERSION_LENGTH: Final = 1_000
"""Characters kept of the client version in CONNECT."""


def on_opened(core: Core, event: SessionOpened) -> None:
    """Opens a session for an accepted connection; the time for its handshake starts."""
    session = Session(event.session_id, event.peer, event.local, core.wall_ms, is_tls=event.is_tls)
    core.sessions[event.session_id] = session
    core.sessions_opened += 1
    _set_timer(core, session, core.config.handshake_timeout_ms, _expect_handshake)


def on_closed(core: Core, event: SessionClosed) -> None:
    """Releases the session of a closed connection: its producers and consumers close at once (A6)."""
    session = core.sessions.get(event.session_id)
    if session is not None:
        session.open = False
        release(core, session)


def end(core: Core, session: Session, reason: str) -> None:
    """Closes a connection and releases its session."""
    core.close_session(session, reason)
    release(core, session)


def release(core: Core, session: Session) -> None:
    """Removes a session, closes its producers and consumers (`Subscription.remove` redelivers). Receipts still under
    way are dropped when they are due."""
    if core.sessions.pop(session.session_id, None) is None:
        return
    core.paused_sessions.discard(session.session_id)
    core.authentications.remove_session(session.session_id)
    core.sliced_requests.remove_session(session.session_id)
    if session.timer is not None:
        session.timer.cancel()
    for watcher in list(session.watchers.values()):
        core.watchers.remove(watcher)
    for waiter in list(session.waiting_producers.values()):
        waiter.leave()
    for producer in list(session.producers.values()):
        producer.leave()
    for consumer in list(session.consumers.values()):
        consumer.subscription.remove(consumer)
    session.producers.clear()
    session.consumers.clear()
    _notify_waiters(session, alive=False)


def on_writing_paused(core: Core, event: WritingPaused) -> None:
    """Stops sending to the consumers of a session whose peer reads slowly (SH-9)."""
    session = core.sessions.get(event.session_id)
    if session is not None:
        session.writable = False


def on_writing_resumed(core: Core, session: Session, _event: WritingResumed) -> None:
    """Sends to the consumers of a session again: its peer has caught up."""
    session.writable = True
    core.sliced_requests.resume(session.session_id)
    for consumer in session.consumers.values():
        core.wake(consumer.subscription)


def on_connect(core: Core, session: Session, command: CommandConnect) -> None:
    """CONNECT: answers CONNECTED, once the client is authenticated (AU-1); a second CONNECT ends the connection."""
    if session.connected:
        end(core, session, "a second CONNECT")
    elif core.config.authentication_enabled:
        core.authentications.begin(session, command)
    else:
        connect(core, session, command)


def connect(core: Core, session: Session, command: CommandConnect) -> None:
    """Completes the handshake with CONNECTED."""
    session.connected = True
    core.handshakes_done += 1
    session.protocol_version = command.protocol_version
    session.client_version = command.client_version[:MAX_VERSION_LENGTH]
    features = FeatureFlags(  # only what works (J2)
        supports_topic_watchers=core.config.topic_patterns,
        supports_get_partitioned_metadata_without_auto_creation=True,
    )
    limit = core.config.max_message_size_bytes
    core.send(session, commands.connected(command.protocol_version, SERVER_VERSION, limit, features=features))
    _set_timer(core, session, core.config.keep_alive_interval_ms, _keep_alive)


def on_ping(core: Core, session: Session, _command: object) -> None:
    """PING: answers PONG at once (A3)."""
    core.send(session, commands.pong())


def on_pong(core: Core, session: Session, _command: object) -> None:
    """PONG: does nothing; `heard_from` has noted its arrival."""


def on_auth_response(core: Core, session: Session, command: CommandAuthResponse) -> None:
    """AUTH_RESPONSE: takes fresh credentials of a client that was authenticated; any other is refused, and its
    connection ends (AU-3)."""
    if session.connected and core.config.authentication_enabled:
        core.authentications.refresh(session, command)
        return
    core.fail(session, commands.NO_REQUEST, AuthenticationError(REFUSED))
    end(core, session, "AUTH_RESPONSE without authentication")


def heard_from(session: Session) -> None:
    """Notes that anything arrived from a session: it is alive."""
    session.heard = True
    if session.alive_waiters:
        _notify_waiters(session, alive=True)


def check_alive(core: Core, session: Session, answer: Callable[[bool], None]) -> None:
    """Checks whether the peer of a connection still answers (PR-2, EX-1).

    `answer` is called with the result, in a later turn unless it is known now. A silent connection is ended
    first, so that its producers and consumers are gone when `answer` hears False.
    """
    if not session.open or session.session_id not in core.sessions:
        answer(False)
        return
    if session.reading_paused:
        answer(True)  # we ourselves do not listen to it at the moment (PR-15)
        return
    waiters = session.alive_waiters
    if len(waiters) >= MAX_LIVENESS_WAITERS:
        answer(True)  # the client may come again
        return
    waiters.append(answer)
    if len(waiters) > 1:
        return
    core.send(session, commands.ping())

    def end_silent() -> None:
        if session.alive_waiters is waiters:  # else it answered; others have requested one since
            session.alive_waiters = []
            end(core, session, "no answer to a liveness check")
            for waiter in waiters:
                waiter(False)

    core.at(core.now_ms + core.config.liveness_check_timeout_ms, end_silent)


def still_wanted(core: Core, session: Session, waiting: dict[int, _Command], number: int, command: _Command) -> bool:
    """Returns whether a PRODUCER or SUBSCRIBE that waits is still wanted: neither closed nor sent again meanwhile, its
    connection there. It waits no more."""
    if session.session_id not in core.sessions or waiting.get(number) is not command:
        return False
    del waiting[number]
    return True


def _notify_waiters(session: Session, *, alive: bool) -> None:
    waiters, session.alive_waiters = session.alive_waiters, []
    for waiter in waiters:
        waiter(alive)


def _set_timer(core: Core, session: Session, after_ms: int, call: Callable[[Core, Session], None]) -> None:
    """Sets the timer of a session, in place of the one before."""
    if session.timer is not None:
        session.timer.cancel()
    session.timer = core.at(core.now_ms + after_ms, lambda: call(core, session))


def _expect_handshake(core: Core, session: Session) -> None:
    if not session.connected and session.open:
        end(core, session, "no CONNECT in time")


def _keep_alive(core: Core, session: Session) -> None:
    if session.session_id not in core.sessions:
        return
    if not session.heard and not session.reading_paused:
        end(core, session, "nothing heard since the last PING")
        return
    session.heard = False
    core.send(session, commands.ping())
    _set_timer(core, session, core.config.keep_alive_interval_ms, _keep_alive)


def resume_reading(core: Core, session: Session) -> None:
    """Reads again from a session that was paused (PR-15)."""
    session.reading_paused = False
    session.heard = True
    core.paused_sessions.discard(session.session_id)
    core.effects.append(ResumeReading(session.session_id))


def refuse(core: Core, session: Session, answer: PulsarError, request_id: int) -> None:
    """Answers ERROR, and ends the connection when the error says so."""
    core.fail(session, request_id, answer)
    if answer.closes == "session":
        end(core, session, answer.message)
