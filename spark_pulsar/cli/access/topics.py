"""The argument TOPIC of commands; a shell completes it with the names that the broker has."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from spark_pulsar.cli.access.options import AccessOptions

TIMEOUT_MS: Final = 1_000
"""Time that a completion may take: the user waits after pressing the key."""
MOST: Final = 1_000
_HOME: Final = "public/default"
_DOMAIN: Final = "persistent://"


def _names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names that a topic may be completed to; none when the broker does not answer at once."""
    try:
        return _names_of_broker(ctx, incomplete)
    except Exception:  # noqa: BLE001 a completion that fails completes nothing
        return []


def _names_of_broker(ctx: typer.Context, incomplete: str) -> list[str]:
    from spark_pulsar.model.names import TopicName

    domain = _DOMAIN if incomplete.startswith(_DOMAIN) else ""
    parts = incomplete.removeprefix(domain).split("/")
    if len(parts) == 2 or (len(parts) == 1 and domain):
        return []  # a tenant's namespace is not known yet
    namespace, prefix = ("/".join(parts[:2]), f"{domain}{parts[0]}/{parts[1]}/") if len(parts) > 2 else (_HOME, "")
    local_names = {TopicName.parse(topic).base.local for topic in _topics_of(_options(ctx), namespace)}
    return sorted(name for local in local_names if (name := f"{prefix}{local}").startswith(incomplete))[:MOST]


def _topics_of(options: tuple[AccessOptions, bool], namespace: str) -> list[str]:
    from spark_pulsar.cli.access.access import admin_access, broker_access

    given, is_admin = options
    if is_admin:
        from spark_pulsar.client.rest import RestApi

        access = admin_access(given)
        api = RestApi(access.url, access.headers(), access.tls_context(), timeout_s=TIMEOUT_MS / 1000)
        listed: list[str] = api.call("GET", f"/admin/v2/persistent/{namespace}").value
        return listed
    from spark_pulsar.client.client import PulsarClient
    from spark_pulsar.client.connections.config import ClientConfig

    access = broker_access(given)
    config = ClientConfig(
        access.url,
        connect_timeout_ms=TIMEOUT_MS,
        operation_timeout_ms=TIMEOUT_MS,
        authentication=access.authentication,
        tls=access.tls,
    )
    client = PulsarClient(config)
    try:
        return client.topics_of(namespace)
    finally:
        client.close()


def _options(ctx: Any) -> tuple[AccessOptions, bool]:
    """Returns the options of access of a command, or of its group, and whether they are those of the admin API."""
    while ctx is not None and "auth_plugin" not in ctx.params:
        ctx = ctx.parent
    given = {} if ctx is None else {name: value for name, value in ctx.params.items() if value is not None}
    for name in ("tls_trust_cert_path", "client_conf"):
        if name in given:
            given[name] = Path(given[name])
    of_access = {field.name for field in fields(AccessOptions)}
    options = AccessOptions(**{name: value for name, value in given.items() if name in of_access})
    return options, ctx is None or "listener_name" not in ctx.params


TOPIC_ARGUMENT: Final[Any] = typer.Argument(
    metavar="TOPIC", help="Short (public/default) or full topic name.", autocompletion=_names
)
TOPIC_OPTION: Final[Any] = typer.Option(
    ..., "--topic", "-t", help="Short (public/default) or full topic name.", autocompletion=_names
)
Topic = Annotated[str, TOPIC_ARGUMENT]
