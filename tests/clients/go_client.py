"""The official Go client, in the words of a test: each `GoClient` is a process of the program under `go/`.

Options have the client's own names, times in nanoseconds (`MS`).
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any, Literal

from tests.eventually import eventually

PROGRAM = Path(__file__).resolve().parent / "go"
# Where Go's own archive is unpacked to, beside what the search path names.
GO_PLACES = (which("go"), "/usr/local/go/bin/go")
BUILD_TIMEOUT_S = 600
ANSWER_TIMEOUT_S = 180.0
RECEIVE_TIMEOUT_MS = 60_000
"""Only a failure waits that long."""
QUIET_MS = 300

MS = 1_000_000
SECOND = 1_000 * MS
EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = range(4)
LATEST, EARLIEST = range(2)
NO_COMPRESSION, LZ4, ZLIB, ZSTD, SNAPPY = range(5)
SHARED_ACCESS, EXCLUSIVE_ACCESS, WAIT_FOR_EXCLUSIVE = range(3)
IN_BATCHES = {"DisableBatching": False}
# What is sent by one call is one entry.
IN_ONE_BATCH = {"DisableBatching": False, "BatchingMaxPublishDelay": 60 * SECOND}
BY_KEY = {"DisableBatching": False, "BatcherBuilderType": 1, "BatchingMaxPublishDelay": 200 * MS}
AUTO_SPLIT, STICKY = range(2)


class NoGo(Exception):
    """Go, or the modules that the program needs, are not to be had here; the message says what is missing."""


class GoError(Exception):
    """The client's error, as it words it."""


def build(into: Path) -> Path:
    """The program, built into a directory. Go fetches the modules that it does not have yet.

    Raises:
        NoGo: Go is missing, too old and unable to fetch a newer one, or cannot have the modules.
        AssertionError: The program does not compile.
    """
    go = next((place for place in GO_PLACES if place and Path(place).exists()), None)
    if go is None:
        raise NoGo("the Go client needs Go 1.24 or newer: there is no `go` on the search path")
    try:
        listed = _run(go, "list", "-deps", "./...")
    except subprocess.TimeoutExpired as error:
        raise NoGo(f"the Go client's modules did not come within {BUILD_TIMEOUT_S} s") from error
    if listed.returncode != 0:
        raise NoGo(f"the Go client needs Go 1.24 or newer and its modules, and `go list` says: {listed.stderr[-500:]}")
    built = _run(go, "build", "-o", str(into / "go-client"), ".")
    assert built.returncode == 0, built.stderr
    return into / "go-client"


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    # The client is pure Go where there is no C; a clone that somebody else owns has no version control to ask.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -mod=readonly", "GOWORK": "off"}
    return subprocess.run(
        command, cwd=PROGRAM, env=environment, capture_output=True, text=True, check=False, timeout=BUILD_TIMEOUT_S
    )


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the client shows it.

    Attributes:
        number: By which the program knows it.
        position: Ledger, entry, partition and index in its batch.
        version: Of its schema.
    """

    number: int
    topic: str
    payload: bytes
    id: bytes
    position: tuple[int, ...]
    key: str
    ordering_key: str
    properties: dict[str, str]
    redeliveries: int
    producer: str
    publish_time_ms: int
    event_time_ms: int
    version: int | None

    @property
    def text(self) -> str:
        """The payload."""
        return self.payload.decode()


def texts(messages: Iterable[Message]) -> list[str]:
    """The payloads."""
    return [message.text for message in messages]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the client says of a message that it sent: its id, or an error."""

    id: bytes
    position: tuple[int, ...]
    error: str


Place = bytes | Message | Literal["earliest", "latest"] | int
"""Where to go: a serialised id, that of a message, an end of the topic, or a time in milliseconds."""


def _place(place: Place) -> dict[str, Any]:
    match place:
        case bytes():
            return {"ID": base64.b64encode(place).decode()}
        case Message():
            return {"Message": place.number}
        case int():
            return {"TimeMS": place}
        case _:
            return {"Word": place}


class GoClient:
    """One client in a process of its own; `close` ends it."""

    def __init__(self, program: Path, url: str, **options: Any) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._waiting: dict[int, Future[Any]] = {}
        self._ids = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.ask("client", {"URL": url, "OperationTimeout": 60 * SECOND} | options)

    def start(self, do: str, what: Any) -> tuple[int, Future[Any]]:
        """Send a request; its number and its answer to come."""
        assert self._process.stdin is not None
        self._ids += 1
        answer: Future[Any] = Future()
        self._waiting[self._ids] = answer
        self._process.stdin.write(json.dumps({"id": self._ids, "do": do, "with": what}) + "\n")
        self._process.stdin.flush()
        return self._ids, answer

    def ask(self, do: str, what: Any) -> Any:
        """The answer to a request.

        Raises:
            GoError: The client's.
        """
        return self.start(do, what)[1].result(ANSWER_TIMEOUT_S)

    def producer(self, topic: str, **options: Any) -> Producer:
        """A producer; batches are off unless the options say otherwise."""
        number, name = self.start("producer", {"Topic": topic, "DisableBatching": True} | options)
        return Producer(self, number, name)

    def consumer(self, topic: str | None, subscription: str = "s", type_: int = EXCLUSIVE, **options: Any) -> Consumer:
        """A consumer, from the first message of its subscription on."""
        place = {"Topic": topic} if topic is not None else {}
        known = {"SubscriptionName": subscription, "Type": type_, "SubscriptionInitialPosition": EARLIEST}
        number, name = self.start("consumer", place | known | options)
        name.result(ANSWER_TIMEOUT_S)
        return Consumer(self, number)

    def begin(self, timeout_ms: int = 60_000) -> Transaction:
        """A transaction."""
        number, answer = self.start("begin", {"TimeoutMS": timeout_ms})
        return Transaction(self, number, tuple(answer.result(ANSWER_TIMEOUT_S)))

    def reader(self, topic: str, start: Place = "earliest", **options: Any) -> Reader:
        """A reader."""
        number, ready = self.start("reader", {"Topic": topic, "Start": _place(start)} | options)
        ready.result(ANSWER_TIMEOUT_S)
        return Reader(self, number)

    def table(self, topic: str, schema: Mapping[str, Any], as_: str) -> Table:
        """A table view."""
        number, ready = self.start("table", {"Topic": topic, "Schema": schema, "As": as_})
        ready.result(ANSWER_TIMEOUT_S)
        return Table(self, number)

    def partitions(self, topic: str) -> list[str]:
        """The names of a topic's partitions."""
        return list(self.ask("partitions", topic))

    def value(self, message: Message, as_: str) -> Any:
        """A message's value, decoded by the schema it was written with as a Go type (see `go/schemas.go`)."""
        return self.ask("value", {"Message": message.number, "As": as_})

    def close(self) -> None:
        """End the process, without a word to the broker: as one that is killed."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            waiting = self._waiting.pop(answer["id"])
            if answer["error"] is not None:
                waiting.set_exception(GoError(answer["error"]))
            else:
                waiting.set_result(answer["result"])
        for waiting in list(self._waiting.values()):
            waiting.set_exception(GoError("the process has ended"))


@dataclass(frozen=True, slots=True)
class _Made:
    client: GoClient
    number: int

    def close(self) -> None:
        """Close it in order."""
        self.client.ask("close", self.number)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction, by the number that the program knows it by; `id` is (most, least)."""

    client: GoClient
    number: int
    id: tuple[int, ...]

    def commit(self) -> None:
        """Commit it."""
        self.start_commit().result(ANSWER_TIMEOUT_S)

    def start_commit(self) -> Future[None]:
        """Commit it; the answer comes later."""
        return self.client.start("end", {"Of": self.number, "Commit": True})[1]

    def abort(self) -> None:
        """Abort it."""
        self.client.ask("end", {"Of": self.number, "Commit": False})


@dataclass(frozen=True, slots=True)
class Producer(_Made):
    """A producer, there or still to come."""

    _name: Future[str]

    @property
    def name(self) -> str:
        """Its name, as soon as it is there.

        Raises:
            GoError: It may not be.
        """
        return self._name.result(ANSWER_TIMEOUT_S)

    @property
    def is_there(self) -> bool:
        """Whether the broker has let it."""
        return self._name.done()

    def start(self, *values: str | bytes | Mapping[str, Any], in_: Transaction | None = None) -> Future[Any]:
        """Send the messages (payloads, or fields of a message), in a transaction; their receipts come later."""
        assert self.name
        order = {"Of": self.number, "Messages": [_outgoing(value) for value in values]}
        return self.client.start("send", order | ({} if in_ is None else {"Transaction": in_.number}))[1]

    def receipts(self, *values: str | bytes | Mapping[str, Any], in_: Transaction | None = None) -> list[Receipt]:
        """Send the messages without waiting in between; what was said of each."""
        said = self.start(*values, in_=in_).result(ANSWER_TIMEOUT_S)
        return [
            Receipt(base64.b64decode(each["id"] or ""), tuple(each["position"] or ()), each["error"]) for each in said
        ]

    def send(self, *values: str | bytes | Mapping[str, Any], in_: Transaction | None = None) -> list[Receipt]:
        """The same, for messages that must arrive.

        Raises:
            GoError: One did not.
        """
        receipts = self.receipts(*values, in_=in_)
        for receipt in receipts:
            if receipt.error:
                raise GoError(receipt.error)
        return receipts


def _outgoing(value: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    fields = {"Payload": value} if isinstance(value, str | bytes) else dict(value)
    payload = fields.pop("Payload", None)
    if payload is not None:
        raw = payload.encode() if isinstance(payload, str) else payload
        fields["Payload"] = base64.b64encode(raw).decode()
    return fields


class _Source(_Made):
    def receive(self, count: int, wait_ms: int = RECEIVE_TIMEOUT_MS) -> list[Message]:
        """So many messages; fails with what came when one is missing."""
        came = self.receive_up_to(count, wait_ms)
        assert len(came) == count, f"{len(came)} of {count} messages: {[each.payload[:50] for each in came]}"
        return came

    def receive_up_to(self, count: int, wait_ms: int = QUIET_MS) -> list[Message]:
        """Messages until none comes for so long."""
        came = self.client.ask("receive", {"Of": self.number, "Count": count, "WaitMS": wait_ms})
        return [_incoming(each) for each in came]

    def seek(self, to: Place) -> None:
        """Go to a place."""
        self.client.ask("seek", {"Of": self.number, "To": _place(to)})

    def last(self) -> dict[str, tuple[int, ...]]:
        """Position of the last message of each topic."""
        return {topic: tuple(at) for topic, at in self.client.ask("last", {"Of": self.number}).items()}


def _incoming(fields: dict[str, Any]) -> Message:
    raw = {name: base64.b64decode(fields[name] or "") for name in ("payload", "id")}
    return Message(**(fields | raw | {"position": tuple(fields["position"])}))


class Consumer(_Source):
    """A consumer."""

    def ack(self, *messages: Message, cumulative: bool = False, in_: Transaction | None = None) -> None:
        """Acknowledge, each alone or all up to each; each alone in a transaction."""
        self._tell("ack", messages, Cumulative=cumulative, Transaction=0 if in_ is None else in_.number)

    def nack(self, *messages: Message) -> None:
        """Ask for the messages again."""
        self._tell("nack", messages)

    def later(self, *messages: Message, delay_ms: int, **properties: str) -> None:
        """Have copies come again through the retry letter topic, with properties of their own."""
        self._tell("later", messages, DelayMS=delay_ms, Properties=properties)

    def unsubscribe(self, *, force: bool = False) -> None:
        """Remove the subscription."""
        self._tell("unsub", (), Force=force)

    def changes(self) -> list[str]:
        """`TOPIC active` and `TOPIC inactive`, as the client was told."""
        return list(self.client.ask("changes", self.number))

    def _tell(self, do: str, messages: Iterable[Message], **more: Any) -> None:
        self.client.ask(do, {"Of": self.number, "Messages": [each.number for each in messages]} | more)


def share_out(consumers: Iterable[Consumer], total: int) -> list[list[Message]]:
    """All of the messages, by the consumer that each came to."""
    among = list(consumers)
    came: list[list[Message]] = [[] for _ in among]

    def all_came() -> bool:
        for messages, consumer in zip(came, among, strict=True):
            messages += consumer.receive_up_to(total, 20)
        return sum(map(len, came)) >= total

    eventually(all_came, timeout_s=RECEIVE_TIMEOUT_MS / 1_000)
    return came


class Reader(_Source):
    """A reader."""

    def has_next(self) -> bool:
        """Whether there is a message after the last one read."""
        return bool(self.client.ask("has_next", self.number))


class Table(_Made):
    """A table view."""

    def entries(self) -> dict[str, Any]:
        """Its keys and values."""
        return dict(self.client.ask("entries", self.number))
