"""`spark-pulsar consume`: prints the messages of a subscription and acknowledges them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

from spark_pulsar.cli.access.access import broker_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.messages.connecting import connected, failed, official_client, queries
from spark_pulsar.cli.messages.decoding import Decoder
from spark_pulsar.cli.messages.forms import MessageFormat
from spark_pulsar.cli.messages.printing import Printer
from spark_pulsar.cli.messages.templates import Template
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.model.schemas import Schema

if TYPE_CHECKING:
    import pulsar

_FOR_EVER_STEP_MS: Final = 500  # so that Ctrl-C is noticed while waiting
TYPES: Final = {"exclusive": "Exclusive", "shared": "Shared", "failover": "Failover", "key_shared": "KeyShared"}
POSITIONS: Final = {"latest": "Latest", "earliest": "Earliest"}


@dataclass(frozen=True, slots=True)
class Subscribing:
    """A topic, a subscription, its type and its first position, in the words of the command line."""

    topic: str
    subscription: str
    kind: str
    initial_position: str


def consume(
    access: AccessOptions,
    wanted: Subscribing,
    *,
    count: int,
    timeout_s: float,
    values_only: bool,
    form: MessageFormat | Template = MessageFormat.TEXT,
) -> None:
    """Prints and acknowledges messages until `count` came (0: for ever). Exit status 1 when the time is up before."""
    kind = chosen(TYPES, wanted.kind, "--type")
    position = chosen(POSITIONS, wanted.initial_position, "--initial-position")
    if not wanted.subscription:
        raise typer.BadParameter("want a name", param_hint="--subscription")
    pulsar = official_client()
    with connected(access) as client, _decoding(access) as decoder:
        consumer = client.subscribe(
            wanted.topic,
            wanted.subscription,
            consumer_type=getattr(pulsar.ConsumerType, kind),
            initial_position=getattr(pulsar.InitialPosition, position),
        )
        printer = Printer(form, decoder, values_only=values_only)
        received = 0
        with contextlib.suppress(KeyboardInterrupt):
            while count == 0 or received < count:
                message = _receive(consumer, timeout_s)
                if message is None:
                    raise failed(f"no message for {timeout_s:g} s")
                printer.print(message)
                consumer.acknowledge(message)
                received += 1
        if received != count:
            typer.echo(f"{received} messages received from {wanted.topic}", err=True)
        consumer.close()


@contextlib.contextmanager
def _decoding(access: AccessOptions) -> Iterator[Decoder | None]:
    """Opens a decoder; None where only the official client finds the broker, by HTTP."""
    if not broker_access(access).url.startswith(("pulsar://", "pulsar+ssl://")):
        yield None
        return
    with queries(access) as questions:
        yield decoder_of(questions)


def decoder_of(questions: PulsarClient) -> Decoder:
    """Returns the decoder that requests the schemas of topics from a broker."""

    def lookup(topic: str, version: bytes | None) -> Schema | None:
        registered = questions.schema_of(topic, version)
        return None if registered is None else registered.schema

    return Decoder(lookup)


def _receive(consumer: pulsar.Consumer, timeout_s: float) -> pulsar.Message | None:
    timeout = official_client().Timeout
    step_ms = _FOR_EVER_STEP_MS if timeout_s == 0 else int(timeout_s * 1000)
    while True:
        try:
            return consumer.receive(timeout_millis=step_ms)
        except timeout:
            if timeout_s:
                return None


def chosen(choices: dict[str, Any], text: str, option: str) -> Any:
    """Returns the choice that an option names in any spelling."""
    name = text.lower().replace("-", "_")
    if name not in choices:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(choices)}", param_hint=option)
    return choices[name]
