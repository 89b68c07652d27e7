"""Subscriptions of a read: the one that mirrors the progress of a query, and the one at whose cursor it starts.

The protocol gives a cursor's position only to a consumer of its subscription, so one is attached for a moment, without
permits: nothing is delivered, and nothing is acknowledged. It is an exclusive one, which a subscription with connected
consumers refuses; a subscription that does not exist comes into being.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.positions import ReadPosition
from spark_pulsar.model.errors import ConsumerBusy, NotAllowed, SubscriptionNotFound

if TYPE_CHECKING:
    from spark_pulsar.client.reading.attached_consumers import InitialPosition


def subscribe(client: PulsarClient, topics: Sequence[str], options: Options, initial: InitialPosition) -> None:
    """Makes the subscription of a query on topic partitions that lack it (OFFSET-10). Raises ConsumerBusy."""
    if options.subscription_name is not None and topics:
        with _naming_the_option(options):
            client.ensure_subscription(topics, options.subscription_name, initial=initial)


def cursor_positions(
    client: PulsarClient, topics: Sequence[str], options: Options, initial: InitialPosition
) -> dict[str, ReadPosition]:
    """Returns the positions of the cursor of `predefinedSubscription`, which is made at `initial` where it is missing
    (OFFSET-14).

    Whole entries only: a batch that is acknowledged in part is read again. Raises ConsumerBusy.
    """
    name = options.predefined_subscription
    assert name is not None
    with _naming_the_option(options):
        positions = client.cursor_positions(topics, name, initial) if topics else {}
    return {topic: ReadPosition.of(at) for topic, at in positions.items()}


@contextmanager
def _naming_the_option(options: Options) -> Iterator[None]:
    name = options.subscription_name
    if options.predefined_subscription is None:
        option, what_to_do = "subscriptionName", "give the query one of its own"
    else:
        option, what_to_do = "predefinedSubscription", "stop their consumers, or start at startingOffsets"
    try:
        yield
    except ConsumerBusy as busy:
        raise ConsumerBusy(f"{option} = {name!r} is in use by others, {what_to_do}: {busy.message}") from busy
    except NotAllowed as refusal:
        raise NotAllowed(f"{option} = {name!r} is not allowed: {refusal.message}") from refusal
    except SubscriptionNotFound as missing:
        reason = f"{option} = {name!r} does not exist, and none may be made: {missing.message}"
        raise SubscriptionNotFound(reason) from missing
