"""The canary: publishes and consumes a hundred messages a second in a namespace of its own, as a process of its own.

    python -m tests.fuzz.canary HOST:PORT [AUTHORITY.pem]

The first line of its standard input is its token, empty for none. It ends when its standard input does, and then prints
one line of JSON: messages and their times, or its failure.
"""

from __future__ import annotations

import itertools
import json
import ssl
import sys
import threading
import time
from typing import Any, Final

from tests.fuzz.door import Door
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


def connect(door: Door) -> RawConnection:
    """Opens a connection after its handshake."""
    connection = RawConnection(*door.address, door.context)
    token = door.admin_token
    connection.connect(**({"auth_method_name": "token", "auth_data": token.encode().hex()} if token else {}))
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


class Canary:
    """The canary: one connection publishes at a fixed pace, whatever the broker does, another consumes."""

    def __init__(self, door: Door) -> None:
        self.end = threading.Event()
        self.times_ms: list[float] = []
        """Time of each message, counted from when it was due to be sent."""
        self._due_s: list[float] = []
        self._receipts = 0
        self._publisher, self._consumer = connect(door), connect(door)
        answer = self._publisher.request("PRODUCER", topic=TOPIC, producer_id=1)
        assert answer.type == "PRODUCER_SUCCESS", answer
        keeper = connect(door)
        subscribe(keeper, KEEPER)
        keeper.close()
        subscribe(self._consumer, "s")

    def sing(self) -> None:
        """Publishes until `end`, and consumes what was published. Raises AssertionError when a message or a receipt
        does not come, comes twice or out of order."""
        publishing = threading.Thread(target=self._publish, daemon=True)
        publishing.start()
        while publishing.is_alive() or len(self.times_ms) < len(self._due_s):
            if len(self.times_ms) < len(self._due_s):
                self._consume()
            else:
                self.end.wait(INTERVAL_S / 10)
        publishing.join()
        self._consumer.expect_no_message(0.1)
        self._take_receipts(len(self._due_s))

    def _publish(self) -> None:
        begin = time.monotonic()
        for number in itertools.count():
            due = begin + number * INTERVAL_S
            if self.end.wait(max(0.0, due - time.monotonic())):
                return
            self._due_s.append(due)
            self._publisher.send_message(1, number, b"%d" % number)
            if number % _PERMITS == 0 and number:
                self._take_receipts(number - _PERMITS // 2)

    def _consume(self) -> None:
        number = len(self.times_ms)
        found = self._consumer.expect("MESSAGE", STALL_S)
        assert number_in(found) == number, f"message {number_in(found)} came, {number} was due"
        self.times_ms.append((time.monotonic() - self._due_s[number]) * 1000)
        self._consumer.send("ACK", consumer_id=1, ack_type="Individual", message_id=[found["message_id"]])
        if number % _PERMITS == _PERMITS // 2:
            self._consumer.send("FLOW", consumer_id=1, messagePermits=_PERMITS)

    def _take_receipts(self, count: int) -> None:
        while self._receipts < count:
            found = self._publisher.expect("SEND_RECEIPT", STALL_S)
            assert found["sequence_id"] == self._receipts, (
                f"receipt of {found['sequence_id']}, {self._receipts} was due"
            )
            self._receipts += 1


def read_all(door: Door, count: int) -> list[int]:
    """Reads so many messages of the topic from its first one on, as its keeper has it, and one more if there is one."""
    consumer = connect(door)
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
    context = ssl.create_default_context(cafile=sys.argv[2]) if len(sys.argv) > 2 else None
    try:
        canary = Canary(Door((host, int(port)), context, admin_token=sys.stdin.readline().strip()))
        threading.Thread(target=lambda: (sys.stdin.read(), canary.end.set()), daemon=True).start()
        canary.sing()
        told: dict[str, Any] = {"times_ms": canary.times_ms}
    except Exception as error:  # noqa: BLE001 - told to the campaign
        told = {"failure": f"{type(error).__name__}: {error}"}
    print(json.dumps(told), flush=True)
    return "failure" in told


if __name__ == "__main__":
    raise SystemExit(main())
