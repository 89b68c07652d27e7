"""Connections of commands to a broker: the official client, and beside it this package's own for requests that it
cannot request."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from spark_pulsar.cli.access.access import TRUST_HINT, Access, broker_access, credentials_failure
from spark_pulsar.cli.access.client_log import ClientLog
from spark_pulsar.cli.access.connection_notices import ConnectionNotices
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.connection import Connection
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectionLost, CredentialsError, OperationTimeout, TlsError
from spark_pulsar.model.errors import AuthenticationError, AuthorizationError, PulsarError, TopicNotFound

if TYPE_CHECKING:
    import pulsar

OPERATION_TIMEOUT_S = 10
_START = "; start one: spark-pulsar broker; another one is named by --service-url, --profile or PULSAR_SERVICE_URL"
_NEEDS_PERMISSION = "the role needs a permission, see spark-pulsar admin namespaces grant-permission"


def failed(text: str) -> typer.Exit:
    """Prints the reason of a failure on standard error; the result is to be raised, for exit status 1."""
    typer.echo(f"spark-pulsar: {text}", err=True)
    return typer.Exit(1)


def official_client() -> Any:
    """Imports the official client, module `pulsar`; says how to install it when it is not there."""
    try:
        import pulsar
    except ImportError as error:
        if error.name not in ("pulsar", "_pulsar"):
            raise
        raise failed(
            "this command uses Apache Pulsar's own client for Python, which is not installed: "
            "pip install 'spark-pulsar[cli]'"
        ) from None
    return pulsar


def _log_line(line: str) -> None:
    typer.echo(line, err=True)


@contextlib.contextmanager
def connected(options: AccessOptions) -> Iterator[pulsar.Client]:
    """Opens an official client; its errors become one line on standard error and exit status 1."""
    pulsar = official_client()
    access = broker_access(options)
    try:
        _check_listening(access)
        settings = access.client_settings()
    except CredentialsError as error:
        raise failed(credentials_failure(error)) from error
    except (PulsarError, ValueError) as error:  # certificates that cannot be read, no URL
        raise failed(str(error)) from error
    notices = ConnectionNotices()
    log = None if options.log_level is None else ClientLog(options.log_level, _log_line)
    try:
        timeouts = {"operation_timeout_seconds": OPERATION_TIMEOUT_S}
        client = pulsar.Client(access.url, logger=(log or notices).logger, **timeouts, **settings)
    except (ValueError, pulsar.PulsarException) as error:  # ValueError: not a URL
        raise failed(str(error)) from error
    try:
        with contextlib.ExitStack() as stack:
            if log is not None:
                stack.callback(log.close)
            stack.enter_context(contextlib.closing(client))
            stack.enter_context(contextlib.closing(notices))
            yield client
    except pulsar.AuthenticationError as error:
        raise failed(f"{access.url}: {error}; {access.hint}") from error
    except pulsar.AuthorizationError as error:
        raise failed(f"{access.url}: {error}; {_NEEDS_PERMISSION}") from error
    except pulsar.PulsarException as error:
        raise failed(f"{access.url}: {error}") from error


@contextlib.contextmanager
def queries(options: AccessOptions) -> Iterator[PulsarClient]:
    """Opens this package's own client, which requests ends, times and schemas of topics. It connects on first use."""
    access = broker_access(options)
    try:
        client = PulsarClient(config_of(access))
    except (PulsarError, ValueError) as error:
        raise failed(str(error)) from error
    try:
        with contextlib.closing(client):
            yield client
    except AuthenticationError as error:
        raise failed(f"{access.url}: {error}; {access.hint}") from error
    except AuthorizationError as error:
        raise failed(f"{access.url}: {error}; {_NEEDS_PERMISSION}") from error
    except TopicNotFound as error:
        raise failed(f"{access.url}: {error}; spark-pulsar topics tree shows those that are there") from error
    except PulsarError as error:
        raise failed(f"{access.url}: {error}") from error


def config_of(access: Access, timeout_ms: int = OPERATION_TIMEOUT_S * 1000) -> ClientConfig:
    """Returns the configuration of this package's own client. Raises ServiceUrlError."""
    return ClientConfig(
        access.url,
        connect_timeout_ms=timeout_ms,
        operation_timeout_ms=timeout_ms,
        authentication=access.authentication,
        tls=access.tls,
        listener_name=access.listener_name,
    )


def _check_listening(access: Access) -> None:
    """Shakes hands with the broker once. The official client tries again and again, and says of a closed port, of a
    certificate and of a refusal the same in the end: that its time is up."""
    if not access.url.startswith(("pulsar://", "pulsar+ssl://")):
        return  # lookup over HTTP, or no URL: the client knows
    try:
        config = config_of(access)
        if len(config.addresses) == 1:  # of several any may be the one that answers
            deadline = Deadline(OPERATION_TIMEOUT_S * 1000, "connecting", access.url)
            Connection.open(config.addresses[0], "", config, deadline).close()
    except AuthenticationError as error:
        raise failed(f"{access.url}: {error}; {access.hint}") from error
    except TlsError as error:
        raise failed(f"{access.url}: {error}; {TRUST_HINT}") from error
    except (ConnectionLost, OperationTimeout) as error:
        is_closed = isinstance(error.__cause__, ConnectionRefusedError)
        raise failed(f"no broker at {access.url}: {error}{_START if is_closed else ''}") from error
