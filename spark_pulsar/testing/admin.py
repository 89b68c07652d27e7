"""Admin API of a broker under test: REST calls with typed errors, and the ones that tests need by name.

Works with every Pulsar, so that a test that reads statistics runs on a cluster, too.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any, Final, Literal
from urllib.parse import quote

from spark_pulsar.client.rest import NO_BODY, RestApi, RestError, parsed
from spark_pulsar.model.names import PERSISTENT, TopicName, split_namespace
from spark_pulsar.model.policies.policy_columns import Level
from spark_pulsar.model.policies.policy_table import POLICIES

TIMEOUT_S: Final = 60.0
_PAUSE_S: Final = 0.05
_DOMAINS: Final = (PERSISTENT, "non-persistent")
Position = Literal["earliest", "latest"]


class AdminError(RuntimeError):
    """Refusal of a request by the admin API, or no answer at all (`status` is 0 then)."""

    def __init__(self, method: str, url: str, status: int, reason: str) -> None:
        super().__init__(f"{method} {url}: {f'{status}: ' if status else ''}{reason}")
        self.method, self.url = method, url
        self.status = status
        """Status of the HTTP answer."""
        self.reason = reason
        """Reason that the broker gave."""


class BrokerAdmin:
    """The admin API at one address. `get`, `put`, `post` and `delete` make any call of `/admin/v2`; paths may leave
    that out: `admin.get("clusters")`. Topics are short or full names, namespaces `tenant/namespace`."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`headers`: those that carry the credentials; `tls`: settings of `https://`."""
        self._api = RestApi(url, headers, tls, timeout_s=timeout_s, uses_proxies=False)
        self.url = self._api.url

    def __repr__(self) -> str:
        return f"<BrokerAdmin {self.url}>"

    # ---- any call ---------------------------------------------------------------------------------------------------

    def get(self, path: str, **query: object) -> Any:
        """Sends GET and returns the parsed answer, None for an empty one. Raises AdminError."""
        return self._call("GET", path, NO_BODY, query)

    def put(self, path: str, body: object = NO_BODY, **query: object) -> Any:
        """Sends PUT with an optional JSON body. Raises AdminError."""
        return self._call("PUT", path, body, query)

    def post(self, path: str, body: object = NO_BODY, **query: object) -> Any:
        """Sends POST with an optional JSON body. Raises AdminError."""
        return self._call("POST", path, body, query)

    def delete(self, path: str, **query: object) -> Any:
        """Sends DELETE. Raises AdminError."""
        return self._call("DELETE", path, NO_BODY, query)

    # ---- tenants and namespaces -------------------------------------------------------------------------------------

    def create_tenant(self, tenant: str, admin_roles: Sequence[str] = ()) -> None:
        """Creates a tenant in all clusters."""
        self.put(f"tenants/{_segment(tenant)}", {"allowedClusters": self.get("clusters"), "adminRoles": [*admin_roles]})

    def create_namespace(self, namespace: str) -> None:
        """Creates a namespace."""
        self.put(f"namespaces/{_namespace(namespace)}")

    def delete_namespace(self, namespace: str, *, force: bool = False) -> None:
        """Deletes a namespace; with `force` its topics first, and disconnects their clients.

        (Apache Pulsar's own way to force it is off unless `forceDeleteNamespaceAllowed` says otherwise.)
        """
        if force:
            for domain in _DOMAINS:
                base = f"{domain}/{_namespace(namespace)}"
                for topic in self.get(f"{base}/partitioned"):
                    self.delete_topic(topic, force=True)
                for topic in self.get(base):
                    if not TopicName.parse(topic).is_system:
                        self.delete_topic(topic, force=True)
        self.delete(f"namespaces/{_namespace(namespace)}")

    def namespaces(self, tenant: str = "public") -> list[str]:
        """Lists the namespaces of a tenant."""
        return list(self.get(f"namespaces/{_segment(tenant)}"))

    def grant(self, namespace: str, role: str, *actions: Literal["produce", "consume"]) -> None:
        """Permits a role to produce or to consume in a namespace, both if no action is given."""
        allowed = list(actions) or ["produce", "consume"]
        self.post(f"namespaces/{_namespace(namespace)}/permissions/{_segment(role)}", allowed)

    # ---- topics -----------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, partitions: int = 0) -> None:
        """Creates a topic; with `partitions` a partitioned one."""
        if partitions:
            self.put(f"{_topic(topic)}/partitions", partitions)
        else:
            self.put(_topic(topic))

    def delete_topic(self, topic: str, *, force: bool = False) -> None:
        """Deletes a topic with its partitions, its subscriptions and messages; with `force` also while it is used."""
        name = TopicName.parse(topic)
        if name.partition < 0 and self.partitions(topic):
            self.delete(f"{_topic(topic)}/partitions", force=force)
            return
        try:
            self.delete(_topic(topic), force=force)
        except AdminError as error:
            if not (force and error.status == HTTPStatus.NOT_FOUND):
                raise

    def topics(self, namespace: str = "public/default") -> list[str]:
        """Lists the topics of a namespace, a partitioned topic once."""
        partitioned = [
            name for domain in _DOMAINS for name in self.get(f"{domain}/{_namespace(namespace)}/partitioned")
        ]
        others = [name for domain in _DOMAINS for name in self.get(f"{domain}/{_namespace(namespace)}")]
        return sorted({*partitioned, *(name for name in others if TopicName.parse(name).base.full not in partitioned)})

    def partitions(self, topic: str) -> int:
        """Returns the number of a topic's partitions, 0 for a topic without."""
        return int(self.get(f"{_topic(topic)}/partitions")["partitions"])

    def stats(self, topic: str) -> dict[str, Any]:
        """Returns the statistics of a topic, those of a partitioned one summed up."""
        tail = "partitioned-stats" if self.partitions(topic) else "stats"
        return dict(self.get(f"{_topic(topic)}/{tail}", getPreciseBacklog=True, perPartition=False))

    def internal_stats(self, topic: str) -> dict[str, Any]:
        """Returns ledgers and cursors of a topic without partitions, or of one partition."""
        return dict(self.get(f"{_topic(topic)}/internalStats"))

    def unload(self, topic: str) -> None:
        """Unloads a topic: clients are disconnected, and connect again."""
        self.put(f"{_topic(topic)}/unload")

    # ---- subscriptions ----------------------------------------------------------------------------------------------

    def subscriptions(self, topic: str) -> list[str]:
        """Lists the subscriptions of a topic."""
        return list(self.get(f"{_topic(topic)}/subscriptions"))

    def create_subscription(self, topic: str, subscription: str, position: Position = "latest") -> None:
        """Creates a durable subscription at the end of a topic, or at its beginning."""
        number = -1 if position == "earliest" else 2**63 - 1
        place = {"ledgerId": number, "entryId": number}
        self.put(f"{_topic(topic)}/subscription/{_segment(subscription)}", place)

    def delete_subscription(self, topic: str, subscription: str, *, force: bool = False) -> None:
        """Deletes a subscription; with `force` also while it has consumers."""
        self.delete(f"{_topic(topic)}/subscription/{_segment(subscription)}", force=force)

    def backlog(self, topic: str, subscription: str) -> int:
        """Returns the number of a subscription's messages that are not acknowledged, over all partitions (entries, as
        Pulsar counts them: a batch is one)."""
        subscriptions = self.stats(topic)["subscriptions"]
        if subscription not in subscriptions:
            raise KeyError(f"{topic} has no subscription {subscription!r}; it has {', '.join(subscriptions) or 'none'}")
        return int(subscriptions[subscription]["msgBacklog"])

    def wait_for_backlog(self, topic: str, subscription: str, count: int, timeout_s: float = 10.0) -> None:
        """Waits until a subscription has `count` messages that are not acknowledged. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while (backlog := self.backlog(topic, subscription)) != count:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{topic}: {subscription} has a backlog of {backlog} after {timeout_s:g} s, not {count}"
                )
            time.sleep(_PAUSE_S)

    # ---- policies ---------------------------------------------------------------------------------------------------

    def set_policy(self, name: str, policy: str, value: object) -> None:
        """Sets a policy of a namespace (`tenant/namespace`) or of a topic (a full name), by the end of its REST path:
        `admin.set_policy("public/default", "retention", {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1})`."""
        path, level = _policy(name, policy)
        with _naming_policy(name, policy):
            if level.parameter:
                self._call(level.method, path, NO_BODY, {level.parameter: value})
            else:
                self._call(level.method, path, value, {})

    def policy(self, name: str, policy: str) -> Any:
        """Returns a policy of a namespace or of a topic, None if it is not set."""
        with _naming_policy(name, policy):
            return self.get(_policy(name, policy)[0])

    def remove_policy(self, name: str, policy: str) -> None:
        """Removes a policy of a namespace or of a topic: that of the level above holds again."""
        with _naming_policy(name, policy):
            self.delete(_policy(name, policy)[0])

    # ---- requests ---------------------------------------------------------------------------------------------------

    def _call(self, method: str, path: str, body: object, query: Mapping[str, object]) -> Any:
        full_path = path if path.startswith(("/admin/", "/metrics")) else f"/admin/v2/{path.lstrip('/')}"
        try:
            return self._api.call(method, full_path, body, query).value
        except RestError as error:
            reason = f"no answer: {error}"
            if error.status:
                reason = error.reason or str(parsed(error.text) or "refused without a reason")
            raise AdminError(method, error.url, error.status, reason) from (None if error.status else error)


def _segment(name: str) -> str:
    return quote(name, safe="")


def _namespace(name: str) -> str:
    return "/".join(_segment(part) for part in split_namespace(name))


def _topic(name: str) -> str:
    if not isinstance(name, str):
        raise ValueError(f"topic is {name!r}: give a name")
    topic = TopicName.parse(name)
    return f"{topic.domain}/{_segment(topic.tenant)}/{_segment(topic.namespace)}/{_segment(topic.local)}"


def _levels(name: str) -> list[Level]:
    """Returns the policies that a namespace, or a topic, has."""
    levels = (row.topic if "://" in name else row.namespace for row in POLICIES)
    return [level for level in levels if level is not None]


@contextmanager
def _naming_policy(name: str, policy: str) -> Iterator[None]:
    """Adds the policy that may be meant to the refusal of a path that there is not."""
    try:
        yield
    except AdminError as error:
        near = get_close_matches(policy, [level.path for level in _levels(name)], 1)
        if not error.status or not near or near[0] == policy:
            raise
        hint = f"{error.reason}: did you mean {near[0]}?"
        raise AdminError(error.method, error.url, error.status, hint) from None


def _policy(name: str, policy: str) -> tuple[str, Level]:
    """Finds the path of a policy, and how it is set: as a namespace's or topic's table says, else in a POST's body."""
    is_topic = "://" in name
    level = next((level for level in _levels(name) if level.path == policy), Level(policy))
    return f"{_topic(name) if is_topic else f'namespaces/{_namespace(name)}'}/{policy}", level
