"""Authentication of sessions as the core sees it: credentials are checked by the shell, roles come back as events.

A CONNECT waits for the role of its credentials, then, behind a proxy, for that of the client's own (AU-1, AU-10). One
without any gets the anonymous role, if there is one, from `server.security.providers` (AU-11). Credentials that expire
are requested anew at the first check after their end (AU-3). Keys, passwords and certificates are the shell's
(`server.security`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.turn.effects import Authenticate
from spark_pulsar.model.errors import AuthenticationError, AuthorizationError
from spark_pulsar.model.principals import Principal
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import AuthMethod

from .auditing import audit
from .authorization import flaw_of_roles

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.turn.events import AuthenticationRefused, SessionAuthenticated
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.wire.pulsar_api_pb2 import CommandAuthResponse, CommandConnect

NO_METHOD: Final = "none"
"""Method of a client that names none."""
_METHODS: Final = frozenset({NO_METHOD, "token", "basic", "tls", "oauth2", "sasl", "athenz", "ycav1"})
"""Methods of Pulsar's clients."""
REFRESH: Final = b"PulsarAuthRefresh"
"""Data of a challenge that requests fresh credentials."""
REFUSED: Final = "Failed to authenticate"
"""Text of every refusal. The reason is for the audit log: clients that are not let in learn nothing from it."""


@dataclass(slots=True, eq=False)
class _State:
    """Authentication of one session."""

    session: Session
    command: CommandConnect | None
    """CONNECT that waits for the check of its credentials, without them."""
    protocol_version: int
    can_refresh: bool
    """The client answers challenges."""
    method: str
    """Method of the credentials that are refreshed: the client's own behind a proxy that forwards them."""
    original: tuple[str, bytes] | None
    """Method and data of the client behind a proxy, while they wait for those of the proxy."""
    has_original_data: bool
    connected_ms: int = 0
    """Time at which the session was connected; checks of its credentials are whole intervals later."""
    number: int = 0
    """Number of the last check that was ordered."""
    is_waiting: bool = False
    """True while the shell checks credentials."""
    is_challenged: bool = False
    """True from a challenge to its answer."""
    timer: Timer | None = None
    """Timer of the next check after the end of the credentials."""


class Authentications:
    """Authentication of all sessions, while `authenticationEnabled`."""

    def __init__(
        self,
        core: Core,
        connect: Callable[[Core, Session, CommandConnect], None],
        end: Callable[[Core, Session, str], None],
    ) -> None:
        """`connect` completes the handshake of an authenticated session, `end` closes one."""
        self._core = core
        self._connect = connect
        self._end = end
        self._states: dict[int, _State] = {}

    def begin(self, session: Session, command: CommandConnect) -> None:
        """Orders a check of the credentials of a CONNECT. A second one while the first is checked ends the
        connection."""
        if session.session_id in self._states:
            self._end(self._core, session, "a second CONNECT")
            return
        method, data = _method_of(command), command.auth_data
        original: tuple[str, bytes] | None = None
        if command.HasField("original_principal"):
            if self._core.config.authenticate_original_auth_data:
                original = command.original_auth_method or NO_METHOD, command.original_auth_data.encode()
            else:
                session.principal = Principal(None, command.original_principal or None)
        command.ClearField("auth_data")
        command.ClearField("original_auth_data")
        state = _State(
            session=session,
            command=command,
            protocol_version=command.protocol_version,
            can_refresh=command.feature_flags.supports_auth_refresh,
            method=method,
            original=original,
            has_original_data=original is not None,
        )
        self._states[session.session_id] = state
        self._order(state, data)

    def refresh(self, session: Session, command: CommandAuthResponse) -> None:
        """Checks the credentials of an AUTH_RESPONSE as those of a CONNECT; the role must stay (AU-3). A challenge is
        not needed, as in Apache Pulsar."""
        state = self._states.get(session.session_id)
        response = command.response
        if state is None or not (response.HasField("auth_data") and response.HasField("auth_method_name")):
            self._end(self._core, session, "an AUTH_RESPONSE without credentials")
        elif state.is_waiting:
            self._end(self._core, session, "an AUTH_RESPONSE while another one is checked")
        else:
            state.is_challenged = False
            self._order(state, response.auth_data)

    def remove_session(self, session_id: int) -> None:
        """Removes a session that is gone; the result of a check is dropped."""
        state = self._states.pop(session_id, None)
        if state is not None and state.timer is not None:
            state.timer.cancel()

    # Results of the shell

    def on_authenticated(self, event: SessionAuthenticated) -> None:
        """Takes the role of credentials: of the connection's, then of those that its proxy forwards, then of fresh
        ones, whose role must be the one before (AU-3)."""
        state = self._awaited(event.session_id, event.number)
        if state is None:
            return
        session, principal = state.session, state.session.principal
        if session.connected:
            known = principal.original if state.has_original_data else principal.role
            if event.role == known:
                self._watch(state, event.expires_ms)
            else:
                audit(self._core, session, "authenticate", state.method, is_allowed=False, reason="another role")
                self._end(self._core, session, "the fresh credentials are those of another role")
            return
        if principal.role is None:
            session.principal = Principal(event.role, principal.original)
            if state.original is not None:
                (state.method, data), state.original = state.original, None
                self._order(state, data)
                return
        else:
            session.principal = Principal(principal.role, event.role)
        self._complete(state, event.expires_ms)

    def on_refused(self, event: AuthenticationRefused) -> None:
        """Answers ERROR with AuthenticationError and closes the connection (AU-1)."""
        state = self._awaited(event.session_id, event.number)
        if state is not None:
            # A method that is none of Pulsar's is not shown: it may be a secret in the wrong place (AU-12).
            method = state.method if state.method in _METHODS else "unknown"
            audit(self._core, state.session, "authenticate", method, is_allowed=False, reason=event.reason)
            self._core.fail(state.session, commands.NO_REQUEST, AuthenticationError(REFUSED))
            self._end(self._core, state.session, f"not authenticated: {event.reason}")

    def _awaited(self, session_id: int, number: int) -> _State | None:
        state = self._states.get(session_id)
        if state is None or state.number != number or not state.is_waiting:
            return None
        state.is_waiting = False
        return state

    # Steps of a handshake

    def _order(self, state: _State, data: bytes) -> None:
        """Orders a check of credentials: those of the connection, or those that its proxy forwards."""
        state.number += 1
        state.is_waiting = True
        session_id, is_forwarded = state.session.session_id, state.has_original_data and state.original is None
        self._core.effects.append(Authenticate(session_id, state.number, state.method, data, is_forwarded))

    def _complete(self, state: _State, expires_ms: int | None) -> None:
        """Connects a session whose roles are known, unless they do not go together (AU-10)."""
        core, session = self._core, state.session
        config = core.config
        flaw = flaw_of_roles(session.principal, config.proxy_roles) if config.authorization_enabled else ""
        if flaw:
            audit(core, session, "authenticate", state.method, is_allowed=False, reason=flaw)
            core.fail(session, commands.NO_REQUEST, AuthorizationError("Invalid roles."))
            self._end(core, session, flaw)
            return
        audit(core, session, "authenticate", state.method, is_allowed=True)
        command, state.command = state.command, None
        assert command is not None, "the handshake is completed once"
        state.connected_ms = core.wall_ms
        self._connect(core, session, command)
        self._watch(state, expires_ms)

    # Credentials that expire

    def _watch(self, state: _State, expires_ms: int | None) -> None:
        """Sets the timer of the first check after the end of the credentials."""
        if state.timer is not None:
            state.timer.cancel()
            state.timer = None
        if expires_ms is not None:
            interval_ms = self._core.config.authentication_refresh_check_ms
            checks = (max(expires_ms, self._core.wall_ms) - state.connected_ms) // interval_ms + 1
            state.timer = self._core.at_wall(
                state.connected_ms + checks * interval_ms, lambda: self._check_expiry(state, expires_ms)
            )

    def _check_expiry(self, state: _State, expires_ms: int) -> None:
        """Acts upon credentials that have expired; the clock may have been corrected since they were not."""
        if expires_ms <= self._core.wall_ms:
            self._challenge(state)
        else:
            self._watch(state, expires_ms)

    def _challenge(self, state: _State) -> None:
        """Requests fresh credentials, or closes the connection of a client that cannot give any."""
        core, session = self._core, state.session
        if session.principal.original is not None and not state.has_original_data:
            self._end(core, session, "its proxy's credentials expired, and those of its client are not forwarded")
        elif not state.can_refresh:
            self._end(core, session, "its credentials expired, and its client cannot refresh them")
        elif state.is_challenged:
            self._end(core, session, "no fresh credentials in time")
        else:
            state.is_challenged = True
            core.send(session, commands.auth_challenge(state.method, REFRESH, None, state.protocol_version))
            interval_ms = core.config.authentication_refresh_check_ms
            state.timer = core.at(core.now_ms + interval_ms, lambda: self._challenge(state))


def _method_of(command: CommandConnect) -> str:
    """Returns the name of a CONNECT's method; old clients send a number."""
    if command.HasField("auth_method_name"):
        return command.auth_method_name
    if command.HasField("auth_method"):
        return AuthMethod.Name(command.auth_method).removeprefix("AuthMethod").lower()
    return NO_METHOD
