"""Authentication of a session under events in any order: nobody is connected without an answer that lets him in."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from spark_pulsar.broker.turn.effects import Authenticate, CloseSession, SendCommand
from spark_pulsar.broker.turn.events import AuthenticationRefused, SessionAuthenticated
from spark_pulsar.model.principals import Principal
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, FeatureFlags
from tests.unit.broker.world import QUIET, Client, World

CHECK_MS = 1_000
roles = st.sampled_from(["u", "v"])


class Account:
    """The state that a session must have."""

    def __init__(self, client: Client, *, forwards: bool) -> None:
        self.client = client
        self.forwards = forwards
        self.orders: list[Authenticate] = []
        self.role: str | None = None
        self.original: str | None = None
        self.is_connected = self.is_ended = False

    @property
    def pending(self) -> Authenticate | None:
        """The order whose answer counts."""
        return self.orders[-1] if self.orders and not self.is_ended else None


class Sessions(RuleBasedStateMachine):
    """Sessions of one broker, with answers of a shell that may be late, wrong or about others."""

    def __init__(self) -> None:
        super().__init__()
        settings = {"authentication_enabled": True, "authentication_refresh_check_ms": CHECK_MS}
        self.world = World(**QUIET, **settings, authenticate_original_auth_data=True)
        self.accounts: list[Account] = []

    @rule(forwards=st.booleans(), refreshes=st.booleans(), answered=st.integers(0, 3), role=roles)
    def connect(self, forwards: bool, refreshes: bool, answered: int, role: str) -> None:
        client = self.world.open_socket()
        command = requests.connect("t", "token", b"own", features=FeatureFlags(supports_auth_refresh=refreshes))
        if forwards:
            command.connect.original_principal = "claimed"
            command.connect.original_auth_data = "forwarded"
        account = Account(client, forwards=forwards)
        self.accounts.append(account)
        client.send(command)
        self._take(account)
        for _ in range(min(answered, 2)):
            self._accept(account, role, None)

    @precondition(lambda self: self.accounts)
    @rule(data=st.data(), role=roles, lives_ms=st.none() | st.integers(-CHECK_MS, 5 * CHECK_MS), late=st.booleans())
    def accept(self, data: st.DataObject, role: str, lives_ms: int | None, late: bool) -> None:
        account = self._one(data)
        if late and account.pending is not None:
            number = account.pending.number - 1
            self.world.happen([SessionAuthenticated(account.client.session_id, number, role, None)])
            self._take(account)
        else:
            self._accept(account, role, lives_ms)

    def _one(self, data: st.DataObject) -> Account:
        """Chooses an account, one that still lives if there is any."""
        account: Account = data.draw(st.sampled_from([a for a in self.accounts if not a.is_ended] or self.accounts))
        return account

    def _accept(self, account: Account, role: str, lives_ms: int | None) -> None:
        order = account.pending
        if order is None:
            return
        expires_ms = None if lives_ms is None else self.world.now_ms + lives_ms
        account.orders.clear()
        self._expect(account, role, is_forwarded=order.is_forwarded)
        self.world.happen([SessionAuthenticated(account.client.session_id, order.number, role, expires_ms)])
        self._take(account)

    def _expect(self, account: Account, role: str, *, is_forwarded: bool) -> None:
        if not account.is_connected:
            if is_forwarded:
                account.original = role
            else:
                account.role = role
            account.is_connected = is_forwarded or not account.forwards
        elif role != (account.original if account.forwards else account.role):
            account.is_ended = True

    @precondition(lambda self: self.accounts)
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        account = self._one(data)
        order = account.pending
        if order is not None:
            account.orders.clear()
            account.is_ended = True
            self.world.happen([AuthenticationRefused(account.client.session_id, order.number, "no")])
            self._take(account)

    @precondition(lambda self: self.accounts)
    @rule(data=st.data())
    def respond(self, data: st.DataObject) -> None:
        account = self._one(data)
        if not account.is_ended:
            account.is_ended = account.pending is not None or not account.is_connected
            account.client.send(requests.auth_response("t", "token", b"fresh"))
            self._take(account)

    @precondition(lambda self: self.accounts)
    @rule(data=st.data(), role=roles, lives_ms=st.none() | st.integers(-CHECK_MS, 5 * CHECK_MS))
    def refresh(self, data: st.DataObject, role: str, lives_ms: int | None) -> None:
        account = self._one(data)
        if account.is_connected and account.pending is None:
            self._respond(account)
            self._accept(account, role, lives_ms)

    def _respond(self, account: Account) -> None:
        if not account.is_ended:
            account.client.send(requests.auth_response("t", "token", b"fresh"))
            self._take(account)

    @precondition(lambda self: self.accounts)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        account = self._one(data)
        self.accounts.remove(account)
        account.client.close()

    @precondition(lambda self: self.accounts)
    @rule(data=st.data())
    def ping(self, data: st.DataObject) -> None:
        account = self._one(data)
        if not account.is_ended:
            account.client.send(commands.ping())
            self._take(account)

    @rule(ms=st.integers(1, 3 * CHECK_MS))
    def wait(self, ms: int) -> None:
        self.world.advance(ms)
        for account in self.accounts:
            self._take(account, may_end=True)

    def _take(self, account: Account, *, may_end: bool = False) -> None:
        for effect in account.client.take_all():
            if isinstance(effect, Authenticate):
                account.orders.append(effect)
            elif isinstance(effect, CloseSession):
                assert account.is_ended or may_end, effect
                account.is_ended = True
            else:
                assert isinstance(effect, SendCommand)
                self._judge(account, effect.command)

    def _judge(self, account: Account, command: Any) -> None:
        allowed = [BaseCommand.PONG]
        if account.is_connected:
            allowed += [BaseCommand.CONNECTED, BaseCommand.AUTH_CHALLENGE]
        if account.is_ended:
            allowed.append(BaseCommand.ERROR)
        assert command.type in allowed, command

    @invariant()
    def roles_are_those_of_the_answers(self) -> None:
        sessions = self.world.core.sessions
        for account in self.accounts:
            session = sessions.get(account.client.session_id)
            assert (session is None) == account.is_ended
            if session is not None and session.connected:
                assert account.is_connected
                assert session.principal == Principal(account.role, account.original)
        known: Any = self.world.core.authentications
        assert set(known._states) <= set(sessions)


TestSessions = Sessions.TestCase
