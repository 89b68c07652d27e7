"""Statistics of a consumer for its client: CONSUMER_STATS (ST-10)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.connections import handshake
from spark_pulsar.broker.entities import meters
from spark_pulsar.model.positions.ids import unsigned
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandConsumerStats

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def on_consumer_stats(core: Core, session: Session, command: CommandConsumerStats) -> None:
    """Handles CONSUMER_STATS: every field is set; for an unknown consumer the connection ends (ST-10, ST-2)."""
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None:
        handshake.end(core, session, "CONSUMER_STATS of an unknown consumer")
        return
    subscription = consumer.subscription
    answer = BaseCommand(type=BaseCommand.CONSUMER_STATS_RESPONSE)
    content = answer.consumerStatsResponse
    content.request_id = command.request_id
    rate = meters.consumed(consumer)
    content.msgRateOut, content.msgThroughputOut = rate.messages, rate.bytes
    content.msgRateRedeliver, content.messageAckRate = rate.redelivered, rate.acked
    content.msgRateExpired = meters.delivered(subscription).expired
    content.consumerName = consumer.name
    content.availablePermits = unsigned(consumer.permits)
    content.unackedMessages = consumer.unacked
    content.blockedConsumerOnUnackedMsgs = consumer.blocked
    content.address = session.peer
    content.connectedSince = timestamp(consumer.connected_ms)
    content.type = subscription.type_name
    content.msgBacklog = max(0, subscription.backlog)
    core.send(session, answer)


def timestamp(time_ms: int) -> str:
    """Formats a time as Pulsar's stats do, in UTC: `2026-11-21T11:59:00.123Z`. A producer's own time may be beyond the
    calendar: then its number."""
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"
