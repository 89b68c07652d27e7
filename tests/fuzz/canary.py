"""The canary: publishes and consumes a hundred messages a second in a namespace of its own, as a process of its own.

    python -m tests.fuzz.canary HOST:PORT

It ends when its standard input does, and then prints one line of JSON: messages and their times, or its failure.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from typing import Any, Final

from tests.raw import Frame, NoFrame, RawConnection

TENANT: Final = "canary"
NAMESPACE: Final = f"{TENANT}/cage"
TOPIC: Final = f"persistent://{NAMESPACE}/song"
KEEPER: Final = "keeper"
"""Subscription that acknowledges nothing, so that every message is kept for the end."""
INTERVAL_S: Final = 0.01
STALL_S: Final = 20.0
"""Longest time of one message: after it the broker stands still."""
_PERMITS: Final = 1_000


def connect(address: tuple[str, int]) -> RawConnection:
    """Opens a connection after its handshake."""
    connection = RawConnection(*address)
    connection.connect()
    return connection


def subscribe(connection: RawConnection, subscription: str, **fields: Any) -> None:
    """Subscribes as consumer 1 and asks for the first messages."""
    wanted = {"subscription": subscription, "subType": "Exclusive", "initialPosition": "Earliest"} | fields
    answer = connection.request("SUBSCRIBE", topic=TOPIC, consumer_id=1, **wanted)
    assert answer.type == "SUCCESS", answer
    connection.send("FLOW", consumer_id=1, messagePermits=_PERMITS)


def number_in(message: Frame) -> int:
    """Reads the number of a message."""
    assert message.payload is not None
    return int(message.payload)


def sing(address: tuple[str, int], end: threading.Event) -> list[float]:
    """Publishes and consumes at a fixed pace until `end`; the time of each message in ms, counted from when it was due.

    Raises AssertionError when a message does not come, comes twice or out of order.
    """
    publisher, consumer = connect(address), connect(address)
    assert publisher.request("PRODUCER", topic=TOPIC, producer_id=1).type == "PRODUCER_SUCCESS"
    keeper = connect(address)
    subscribe(keeper, KEEPER)
    keeper.close()
    subscribe(consumer, "s")
    times_ms: list[float] = []
    due = time.monotonic()
    for number in itertools.count():
        due = max(due + INTERVAL_S, time.monotonic() - 1.0)  # a stall is not made up for by a flood
        if end.wait(max(0.0, due - time.monotonic())):
            consumer.expect_no_message(0.1)
            return times_ms
        publisher.send_message(1, number, b"%d" % number)
        found = consumer.expect("MESSAGE", STALL_S)
        assert number_in(found) == number, f"message {number_in(found)} came, {number} was due"
        times_ms.append((time.monotonic() - due) * 1000)
        assert publisher.expect("SEND_RECEIPT", STALL_S)["sequence_id"] == number
        consumer.send("ACK", consumer_id=1, ack_type="Individual", message_id=[found["message_id"]])
        if number % _PERMITS == _PERMITS // 2:
            consumer.send("FLOW", consumer_id=1, messagePermits=_PERMITS)
    raise AssertionError("unreachable")


def read_all(address: tuple[str, int], count: int) -> list[int]:
    """Reads so many messages of the topic from its first one on, as its keeper has it, and one more if there is one."""
    consumer = connect(address)
    subscribe(consumer, KEEPER)
    numbers: list[int] = []
    try:
        while len(numbers) <= count:
            try:
                numbers.append(number_in(consumer.expect("MESSAGE", STALL_S if len(numbers) < count else 0.5)))
            except NoFrame:
                break
            if len(numbers) % _PERMITS == _PERMITS // 2:
                consumer.send("FLOW", consumer_id=1, messagePermits=_PERMITS)
    finally:
        consumer.close()
    return numbers


def main() -> int:
    """Sings until standard input ends."""
    host, _, port = sys.argv[1].rpartition(":")
    end = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), end.set()), daemon=True).start()
    try:
        told: dict[str, Any] = {"times_ms": sing((host, int(port)), end)}
    except Exception as error:  # noqa: BLE001 - told to the campaign
        told = {"failure": f"{type(error).__name__}: {error}"}
    print(json.dumps(told), flush=True)
    return "failure" in told


if __name__ == "__main__":
    raise SystemExit(main())
