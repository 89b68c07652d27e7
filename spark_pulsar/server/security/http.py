"""Authentication of HTTP requests by the providers of the broker (AU-6, AU-10, AU-11, SEC-2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from spark_pulsar.admin.http.refusals import Refused, Unauthenticated
from spark_pulsar.broker.security.authentication import NO_METHOD, REFUSED
from spark_pulsar.broker.security.authorization import flaw_of_roles
from spark_pulsar.broker.turn.effects import WriteAudit
from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.model.principals import UNAUTHENTICATED, Principal

from .audit import write_audit
from .provider import AUTHENTICATED, CLIENT_CERTIFICATE, ON_GONE, Credentials, Vouched

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection, Request

    from spark_pulsar.server.configuration.server_config import ServerConfig

    from .providers import Providers

METHOD_HEADER: Final = "x-pulsar-auth-method-name"
ORIGINAL_HEADER: Final = "x-original-principal"
_SCHEMES: Final = {"token": "Bearer", "basic": "Basic"}
"""Scheme of `WWW-Authenticate` for each method that has one."""
_PROBES: Final = ("admin/v2/brokers/ready", "admin/v2/brokers/version")
_METRICS: Final = "metrics"
_PAGE: Final = frozenset({"", "page"})
"""First segments of the paths of the page, whose files hold no data."""
_MAX_METHOD_LENGTH: Final = 100
_MAX_KNOWN: Final = 100
"""Principals of one connection that are not written twice."""


class HttpAuthenticator:
    """Authentication of requests: `Authorization`, or the client certificate, as the providers read them."""

    def __init__(self, providers: Providers, config: ServerConfig) -> None:
        self._providers = providers
        self.audit = write_audit if config.broker.audit_log else None
        """Writer of the audit log, if there is one (SEC-20)."""
        self._checks_roles = config.broker.authorization_enabled
        self._proxy_roles = config.broker.proxy_roles
        open_paths = _PROBES if config.authenticate_metrics_endpoint else (*_PROBES, _METRICS)
        self._open = frozenset(tuple(path.split("/")) for path in open_paths)
        methods = {provider.method for provider in providers.all()}
        self._challenge = ", ".join(
            f'{scheme} realm="pulsar"' for method, scheme in _SCHEMES.items() if method in methods
        )

    async def __call__(self, request: Request, segments: Sequence[str]) -> Principal:
        """Returns the principal of a request to this path. Raises Unauthenticated: 401, for bad credentials even where
        clients without any have the anonymous role; Refused for roles that do not go together."""
        if tuple(segments) in self._open or segments[0] in _PAGE:
            return UNAUTHENTICATED
        return (await self.identify(request, segments)).principal

    async def identify(self, request: HTTPConnection, _segments: Sequence[str] = ()) -> Vouched:
        """Returns the roles of a request, and until when they hold. Raises as a call does."""
        certificate: bytes | None = request.scope.get("state", {}).get(CLIENT_CERTIFICATE)
        client = request.client
        peer = f"/{client.host}:{client.port}" if client else ""
        shown = self._credentials(request, certificate, peer)
        has_some = shown is not None or "authorization" in request.headers or METHOD_HEADER in request.headers
        credentials = shown or Credentials(NO_METHOD, b"", None, peer)
        try:
            if shown is None and has_some:
                raise AuthenticationError("credentials of no provider")
            authenticated = await self._providers.check(credentials, request.scope.get("state", {}).get(ON_GONE))
        except AuthenticationError as error:
            if self.audit is not None:
                self.audit(WriteAudit(peer, None, None, "authenticate", credentials.method, False, error.message))
            text = REFUSED if has_some else "Authentication required"
            raise Unauthenticated(text, self._challenge) from None
        principal = Principal(authenticated.role, request.headers.get(ORIGINAL_HEADER) or None)
        if self._checks_roles:
            flaw = flaw_of_roles(principal, self._proxy_roles, may_name_itself=True)
            if flaw:
                raise Refused(401, f"Invalid roles: {flaw}")
        self._audit_once(request, principal, credentials.method, peer)
        return Vouched(principal, authenticated.expires_ms)

    def _audit_once(self, request: HTTPConnection, principal: Principal, method: str, peer: str) -> None:
        """Writes to the audit log who has come in, once for a connection."""
        known: set[tuple[Principal, str]] | None = request.scope.get("state", {}).get(AUTHENTICATED)
        if self.audit is None or known is None or (principal, method) in known:
            return
        if len(known) >= _MAX_KNOWN:
            known.clear()
        known.add((principal, method))
        self.audit(WriteAudit(peer, principal.role, principal.original, "authenticate", method, True))

    def _credentials(self, request: HTTPConnection, certificate: bytes | None, peer: str) -> Credentials | None:
        """Finds the credentials of a request: those of the method that it names, else the first that a provider
        reads."""
        named = request.headers.get(METHOD_HEADER, "")[:_MAX_METHOD_LENGTH]
        for provider in self._providers.all():
            if named and provider.method != named:
                continue
            data = provider.from_headers(request.headers, certificate)
            if data is not None:
                return Credentials(provider.method, data, certificate, peer)
        return None
