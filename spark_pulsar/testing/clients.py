"""Clients of a Pulsar under test: the official one, and one of the admin API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spark_pulsar.testing.admin import BrokerAdmin

if TYPE_CHECKING:
    import pulsar

    from spark_pulsar.testing.security import RoleAccess


def open_client(access: RoleAccess, settings: Mapping[str, Any]) -> pulsar.Client:
    """Makes an official client with a role's access, and `settings` on top. Raises ModuleNotFoundError without it."""
    try:
        import pulsar
    except ModuleNotFoundError as error:
        if error.name not in ("pulsar", "_pulsar"):
            raise
        raise ModuleNotFoundError(
            "the official client is not installed: pip install 'spark-pulsar[cli]'", name=error.name
        ) from None
    quiet = {"logger": pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn)}
    return pulsar.Client(**(quiet | access.client_options | dict(settings)))


def close_client(client: pulsar.Client) -> None:
    """Closes an official client, which may be closed already."""
    import pulsar

    try:
        client.close()
    except pulsar.AlreadyClosed:
        return


def open_admin(access: RoleAccess) -> BrokerAdmin:
    """Makes a client of the admin API with a role's access."""
    return BrokerAdmin(access.admin_url, access.admin_headers, access.tls_context())
