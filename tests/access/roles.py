"""The roles of the access matrix, and the tenants, namespaces, topics and permissions that give them their rights."""

import base64
import http.client
import json
import urllib.parse
from collections.abc import Mapping
from typing import Any, Final

import jwt

ANSWER_TIMEOUT_S: Final = 10.0
ATTEMPTS: Final = 3
KEY: Final = b"the secret key of the tokens of the access matrix"
ADMIN: Final = "admin"
"""Super user, as which everything is set up."""
WITHOUT_CREDENTIALS: Final = "-"
_OTHERS: Final = ("nobody", "producer", "consumer", "worker", "topical", "stranger", "manager")
ROLES: Final = (WITHOUT_CREDENTIALS, *_OTHERS, ADMIN)
"""`worker` has the actions of functions, `topical` those of one topic, `manager` is the tenant's administrator and
`stranger` that of another tenant."""
GRANTS: Final[Mapping[str, list[str]]] = {
    "producer": ["produce"],
    "consumer": ["consume"],
    "worker": ["functions", "sources", "sinks", "packages"],
}
TENANT, NAMESPACE, OTHER_NAMESPACE = "own", "own/space", "other/space"
TOPIC, PARTS, OTHER_TOPIC = "target", "parts", "persistent://other/space/target"
SUBSCRIPTION: Final = "sub"

CONFIGURATION: Final = {
    "authenticationEnabled": "true",
    "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    "tokenSecretKey": "data:;base64," + base64.b64encode(KEY).decode(),
    "authorizationEnabled": "true",
    "superUserRoles": ADMIN,
    "transactionCoordinatorEnabled": "true",
}
"""Keys that both brokers have."""


def token(role: str) -> str:
    """The token of a role, which never expires."""
    return jwt.encode({"sub": role}, KEY, "HS256")


TOKENS: Final = {role: token(role) for role in ROLES if role != WITHOUT_CREDENTIALS}


class Rest:
    """Connections to an admin API, one for each role."""

    def __init__(self, admin_url: str) -> None:
        self._netloc = urllib.parse.urlsplit(admin_url).netloc
        self._connections: dict[str, http.client.HTTPConnection] = {}

    def call(self, role: str, method: str, path: str, body: Any = None, original: str = "") -> tuple[int, str]:
        """Status, and the reason or the text of the answer; `original` is the role that a proxy names."""
        headers = {} if role == WITHOUT_CREDENTIALS else {"Authorization": f"Bearer {TOKENS[role]}"}
        if original:
            headers["X-Original-Principal"] = original
        data = None if body is None else json.dumps(body)
        if data is not None:
            headers["Content-Type"] = "application/json"
        status, text = 0, "no answer"
        for _ in range(ATTEMPTS):
            try:
                status, text = self._exchange(role, method, path, data, headers)
                break
            except (http.client.RemoteDisconnected, ConnectionError):  # it was idle for too long
                self._connections.pop(role).close()
            except TimeoutError:  # some calls of allowed roles Apache Pulsar never answers
                self._connections.pop(role).close()
                break
        try:
            found = json.loads(text)
        except ValueError:
            return status, text
        return status, str(found["reason"]) if isinstance(found, dict) and "reason" in found else text

    def _exchange(
        self, role: str, method: str, path: str, data: str | None, headers: dict[str, str]
    ) -> tuple[int, str]:
        connection = self._connections.get(role)
        if connection is None:
            connection = self._connections[role] = http.client.HTTPConnection(self._netloc, timeout=ANSWER_TIMEOUT_S)
        connection.request(method, f"/{path}", data, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")

    def must(self, method: str, path: str, body: Any = None, allowed: tuple[int, ...] = (200, 204, 409)) -> None:
        """A call of the super user that succeeds, or had succeeded earlier."""
        status, text = self.call(ADMIN, method, path, body)
        assert status in allowed, f"{method} {path}: {status} {text}"

    def close(self) -> None:
        """Closes the connections."""
        for connection in self._connections.values():
            connection.close()


def set_up(rest: Rest) -> None:
    """Makes the tenants, namespaces, topics and permissions of the matrix."""
    for tenant, role in ((TENANT, "manager"), ("other", "stranger")):
        rest.must("PUT", f"admin/v2/tenants/{tenant}", {"adminRoles": [role], "allowedClusters": ["standalone"]})
        rest.must("PUT", f"admin/v2/namespaces/{tenant}/space", {})
        rest.must("PUT", f"admin/v2/persistent/{tenant}/space/{TOPIC}")
    for role, actions in GRANTS.items():
        rest.must("POST", f"admin/v2/namespaces/{NAMESPACE}/permissions/{role}", actions)
    for topic in (TOPIC, PARTS):
        path = f"admin/v2/persistent/{NAMESPACE}/{topic}"
        if topic == PARTS:
            rest.must("PUT", f"{path}/partitions", 2)
        rest.must("PUT", f"{path}/subscription/{SUBSCRIPTION}")
        rest.must("POST", f"{path}/permissions/topical", ["produce", "consume"])
