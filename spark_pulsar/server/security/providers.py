"""The providers of a broker, chosen by the method that a client names (AU-1, AU-11, SEC-1). Credentials that expire are
requested anew by the core (AU-3: `broker.security.authentication`). What a role may do is no provider's work: the
configuration refuses another `authorizationProvider` than Pulsar's own (SEC-62)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, MutableSet, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.server.configuration.reading import InvalidConfiguration

from .check_queue import Check, CheckQueue
from .provider import Authenticated, AuthenticationProvider, Credentials

if TYPE_CHECKING:
    from spark_pulsar.server.configuration.server_config import ServerConfig

MAX_CREDENTIALS_BYTES: Final = 16 * 1024
"""Most bytes of credentials: as many as a first frame may have, and the headers of a request."""
_THREADS: Final = 2
"""Threads of slow providers: hashes of passwords, and requests to issuers of tokens."""

_JAVA: Final = "org.apache.pulsar.broker.authentication."
PROVIDERS: Final[Mapping[str, tuple[str, str]]] = {
    "token": ("token", "TokenProvider"),
    "basic": ("basic", "BasicProvider"),
    "tls": ("tls_certificates", "CertificateProvider"),
    "openid": ("openid", "OpenIdProvider"),
}
"""Module and class of each provider, by its short name in `authenticationProviders`."""
_SHORT_NAMES: Final[Mapping[str, str]] = {
    f"{_JAVA}AuthenticationProviderToken": "token",
    f"{_JAVA}AuthenticationProviderBasic": "basic",
    f"{_JAVA}AuthenticationProviderTls": "tls",
    f"{_JAVA}oidc.AuthenticationProviderOpenID": "openid",
}
"""Short name by Apache Pulsar's name of the class."""

_LOG: Final = logging.getLogger("spark_pulsar.server")

Outcome = Authenticated | AuthenticationError


def _nothing() -> None:
    """Does nothing: the check is done."""


class Providers:
    """All providers of a broker, and the role of clients that name no method of theirs."""

    def __init__(
        self, providers: Sequence[AuthenticationProvider], anonymous_role: str, clock: Callable[[], int]
    ) -> None:
        """`anonymous_role`: empty when clients need credentials. `clock`: wall-clock milliseconds."""
        self.anonymous_role = anonymous_role
        self._by_method: dict[str, list[AuthenticationProvider]] = {}
        for provider in providers:
            self._by_method.setdefault(provider.method, []).append(provider)
        self._clock = clock
        self._queue = CheckQueue()
        self._threads: list[threading.Thread] = []

    def all(self) -> list[AuthenticationProvider]:
        """Lists the providers, in the order of the configuration within a method."""
        return [provider for providers in self._by_method.values() for provider in providers]

    def start(
        self, loop: asyncio.AbstractEventLoop, credentials: Credentials, done: Callable[[Outcome], None]
    ) -> Callable[[], None]:
        """Checks credentials; `done` is called with the outcome in the loop: at once, or later for a provider that is
        slow (SEC-88). Returns what cancels a check that still waits, when its client is gone."""
        providers = self._by_method.get(credentials.method, ())
        if not any(provider.is_slow for provider in providers):
            done(self._check(credentials))
            return _nothing

        def later(outcome: Outcome) -> None:
            try:
                loop.call_soon_threadsafe(done, outcome)
            except RuntimeError:  # the loop has ended, and the broker with it
                _LOG.debug("an authentication ended after its broker")

        def run() -> None:
            outcome = self._check(credentials)
            self._queue.done(check, is_accepted=not isinstance(outcome, AuthenticationError))
            later(outcome)

        check = Check(credentials.peer, run, lambda reason: later(AuthenticationError(reason)))
        if not self._threads:
            self._threads = [
                threading.Thread(target=self._work, name=f"authenticate-{number}", daemon=True)
                for number in range(_THREADS)
            ]
            for thread in self._threads:
                thread.start()
        self._queue.put(check)
        return lambda: self._queue.cancel(check)

    async def check(
        self, credentials: Credentials, on_gone: MutableSet[Callable[[], None]] | None = None
    ) -> Authenticated:
        """Returns the role of credentials. Raises AuthenticationError. `on_gone` is called when the client is gone; it
        has the end of this check meanwhile."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()

        def end(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        cancel = self.start(loop, credentials, end)

        def gone() -> None:
            cancel()
            end(AuthenticationError("the client is gone"))

        if on_gone is not None:
            on_gone.add(gone)
        try:
            outcome = await future
        finally:
            cancel()
            if on_gone is not None:
                on_gone.discard(gone)
        if isinstance(outcome, AuthenticationError):
            raise outcome
        return outcome

    def close(self) -> None:
        """Ends the threads; drops the checks that wait for them."""
        self._queue.close()

    def _work(self) -> None:
        """Runs in the threads of slow providers."""
        while (check := self._queue.next_check()) is not None:
            check.run()

    def _check(self, credentials: Credentials) -> Outcome:
        """Calls the providers of the method one after another, until one knows the role (SEC-1, SEC-3)."""
        providers = self._by_method.get(credentials.method)
        if providers is None:
            if self.anonymous_role:
                return Authenticated(self.anonymous_role)
            return AuthenticationError("no provider of its method, and no anonymous role")
        if len(credentials.data) > MAX_CREDENTIALS_BYTES:
            return AuthenticationError(f"{len(credentials.data)} bytes of credentials, of {MAX_CREDENTIALS_BYTES}")
        reasons: list[str] = []
        for provider in providers:
            try:
                authenticated = provider.authenticate(credentials, self._clock())
            except AuthenticationError as error:
                reasons.append(error.message)  # without the stack, which holds credentials
            except Exception as error:  # noqa: BLE001  # its text may quote the credentials, so that it is not logged
                _LOG.error("the provider of %s failed: %s", provider.method, type(error).__name__)
                reasons.append(f"the provider failed: {type(error).__name__}")
            else:
                if authenticated.role:
                    return authenticated
                reasons.append("the credentials name no role")
        return AuthenticationError("; ".join(reasons))


def providers_of(config: ServerConfig, clock: Callable[[], int]) -> Providers | None:
    """Makes the providers of a configuration, None while authentication is off.

    Raises InvalidConfiguration for a provider that is not known, lacks a library or a key, or is given one that cannot
    be used.
    """
    if not config.broker.authentication_enabled:
        return None
    if not config.authentication_providers and not config.anonymous_user_role:
        raise InvalidConfiguration("authenticationEnabled=true: want authenticationProviders, no client could connect")
    providers = [_provider(name, config) for name in dict.fromkeys(config.authentication_providers)]
    return Providers(providers, config.anonymous_user_role, clock)


def _provider(name: str, config: ServerConfig) -> AuthenticationProvider:
    short = _SHORT_NAMES.get(name, name)
    if short not in PROVIDERS:
        known = ", ".join([*PROVIDERS, *_SHORT_NAMES])
        raise InvalidConfiguration(f"authenticationProviders={name}: want some of {known}, by commas")
    module, class_name = PROVIDERS[short]
    path = f"{__package__}.{module}"
    try:
        made: Any = getattr(import_module(path), class_name)
        provider: AuthenticationProvider = made.from_config(config)
    except ModuleNotFoundError as error:
        if error.name == path:
            raise InvalidConfiguration(f"authenticationProviders={name}: this version has no such provider") from error
        raise InvalidConfiguration(
            f"authenticationProviders={name}: needs the Python package {error.name}: "
            "pip install 'spark-pulsar[security]'"
        ) from error
    return provider
