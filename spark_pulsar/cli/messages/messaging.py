"""`spark-pulsar produce` and `consume`, on the official client."""

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pulsar
import typer

from spark_pulsar.cli.access.access import TRUST_HINT, Access, broker_access, credentials_failure
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.client.config import ClientConfig
from spark_pulsar.client.connection import Connection
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectionLost, CredentialsError, OperationTimeout, TlsError
from spark_pulsar.model.errors import AuthenticationError, PulsarError

TYPES = {
    "exclusive": pulsar.ConsumerType.Exclusive,
    "shared": pulsar.ConsumerType.Shared,
    "failover": pulsar.ConsumerType.Failover,
    "key_shared": pulsar.ConsumerType.KeyShared,
}
POSITIONS = {"latest": pulsar.InitialPosition.Latest, "earliest": pulsar.InitialPosition.Earliest}
OPERATION_TIMEOUT_S = 10
FOR_EVER_STEP_MS = 500  # so that Ctrl-C is noticed while waiting


@dataclass(frozen=True, slots=True)
class Subscribing:
    """A topic, a subscription, its type and its first position, in the words of the command line."""

    topic: str
    subscription: str
    kind: str
    initial_position: str


@contextlib.contextmanager
def _connected(options: AccessOptions) -> Iterator[pulsar.Client]:
    """Opens an official client; its errors become one line on standard error and exit status 1."""
    access = broker_access(options)
    try:
        _check_listening(access)
        settings = access.client_settings()
    except CredentialsError as error:
        raise _failed(credentials_failure(error)) from error
    except (PulsarError, ValueError) as error:  # certificates that cannot be read, no URL
        raise _failed(str(error)) from error
    # The client's own log would say the same in ten lines.
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    try:
        client = pulsar.Client(access.url, operation_timeout_seconds=OPERATION_TIMEOUT_S, logger=logger, **settings)
    except (ValueError, pulsar.PulsarException) as error:  # ValueError: not a URL
        raise _failed(str(error)) from error
    try:
        with contextlib.closing(client):
            yield client
    except pulsar.AuthenticationError as error:
        raise _failed(f"{access.url}: {error}; {access.hint}") from error
    except pulsar.AuthorizationError as error:
        needed = "the role needs a permission, see spark-pulsar admin namespaces grant-permission"
        raise _failed(f"{access.url}: {error}; {needed}") from error
    except pulsar.PulsarException as error:
        raise _failed(f"{access.url}: {error}") from error


def _check_listening(access: Access) -> None:
    """Shakes hands with the broker once. The official client tries again and again, and says of a closed port, of a
    certificate and of a refusal the same in the end: that its time is up."""
    if not access.url.startswith(("pulsar://", "pulsar+ssl://")):
        return  # look-up over HTTP, or no URL: the client knows
    timeout_ms = OPERATION_TIMEOUT_S * 1000
    try:
        config = ClientConfig(
            access.url, connect_timeout_ms=timeout_ms, authentication=access.authentication, tls=access.tls
        )
        if len(config.addresses) == 1:  # of several any may be the one that answers
            deadline = Deadline(timeout_ms, "connecting", access.url)
            Connection.open(config.addresses[0], "", config, deadline).close()
    except AuthenticationError as error:
        raise _failed(f"{access.url}: {error}; {access.hint}") from error
    except TlsError as error:
        raise _failed(f"{access.url}: {error}; {TRUST_HINT}") from error
    except (ConnectionLost, OperationTimeout) as error:
        raise _failed(f"no broker at {access.url}: {error}") from error


def _failed(text: str) -> typer.Exit:
    typer.echo(f"spark-pulsar: {text}", err=True)
    return typer.Exit(1)


def produce(
    access: AccessOptions,
    topic: str,
    messages: Iterable[str],
    *,
    key: str | None,
    properties: dict[str, str],
    count: int,
) -> None:
    """Sends every message `count` times, batched, and waits until all are on disk; prints their number on standard
    error."""
    outcomes: Counter[Any] = Counter()

    def on_receipt(result: Any, _message_id: Any) -> None:
        outcomes[result] += 1

    with _connected(access) as client:
        producer = client.create_producer(topic, block_if_queue_full=True, batching_enabled=True)
        for message in messages:
            for _ in range(count):
                producer.send_async(message.encode(), on_receipt, partition_key=key, properties=properties)
        producer.flush()
    stored = outcomes.pop(pulsar.Result.Ok, 0)
    typer.echo(f"{stored} messages sent to {topic}", err=True)
    if outcomes:
        raise _failed(f"not sent: {', '.join(f'{number} ({result})' for result, number in outcomes.items())}")


def consume(access: AccessOptions, wanted: Subscribing, *, count: int, timeout_s: float, values_only: bool) -> None:
    """Prints and acknowledges messages until `count` came (0: for ever). Exit status 1 when the time is up before."""
    kind = _chosen(TYPES, wanted.kind, "--type")
    position = _chosen(POSITIONS, wanted.initial_position, "--initial-position")
    if not wanted.subscription:
        raise typer.BadParameter("want a name", param_hint="--subscription")
    with _connected(access) as client:
        consumer = client.subscribe(wanted.topic, wanted.subscription, consumer_type=kind, initial_position=position)
        received = 0
        with contextlib.suppress(KeyboardInterrupt):
            while count == 0 or received < count:
                message = _receive(consumer, timeout_s)
                if message is None:
                    raise _failed(f"no message for {timeout_s:g} s")
                _print(message, values_only)
                consumer.acknowledge(message)
                received += 1
        consumer.close()


def _receive(consumer: pulsar.Consumer, timeout_s: float) -> pulsar.Message | None:
    step_ms = FOR_EVER_STEP_MS if timeout_s == 0 else int(timeout_s * 1000)
    while True:
        try:
            return consumer.receive(timeout_millis=step_ms)
        except pulsar.Timeout:
            if timeout_s:
                return None


def _print(message: pulsar.Message, values_only: bool) -> None:
    value = message.data().decode(errors="replace")
    if values_only:
        text = value
    else:
        key = message.partition_key()
        extra = "".join(f" {name}={content}" for name, content in message.properties().items())
        text = f"{message.message_id()} [{key}]{extra} {value}" if key else f"{message.message_id()}{extra} {value}"
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _chosen(choices: dict[str, Any], text: str, option: str) -> Any:
    name = text.lower().replace("-", "_")
    if name not in choices:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(choices)}", param_hint=option)
    return choices[name]
