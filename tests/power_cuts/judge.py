"""Judges a broker that was started on what a cut left: all that was promised is there, and nothing else."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from spark_pulsar.wire import pulsar_api_pb2 as api
from tests.brokers import Broker, topic_path
from tests.raw import command_bytes, entry_bytes, frame_bytes

from .account import NO_PLACE, SHORT_MS, Account, Place, Sent, Subscription, Topic, TransactionKey
from .conversation import checked_entry

_EARLIEST: Final = {"ledgerId": NO_PLACE, "entryId": NO_PLACE}
_PERMITS: Final = 1 << 24
_TIMEOUT_S: Final = 15.0


class PromiseBroken(AssertionError):
    """A broker broke a promise; the message tells which."""


def require_none(what: str, found: Collection[str]) -> None:
    """Raises PromiseBroken when something was found that must not be there."""
    if found:
        raise PromiseBroken(f"{what}: {'; '.join(found)}")


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry as a consumer gets it. `left`: bit mask of the indexes that it has not acknowledged, None: all."""

    entry: bytes
    metadata: Any
    left: int | None


class _Connection:
    """A connection that only counts what the judge needs: many thousand entries a second."""

    def __init__(self, broker: Broker) -> None:
        url = urlsplit(broker.service_url)
        self._socket = socket.create_connection((url.hostname, url.port or 0), timeout=_TIMEOUT_S)
        self._bytes = bytearray()
        self._requests = 0

    def close(self) -> None:
        self._socket.close()

    def say(self, kind: str, entry: bytes = b"", **fields: Any) -> None:
        self._socket.sendall(frame_bytes(command_bytes(kind, fields), entry))

    def ask(self, kind: str, entry: bytes = b"", **fields: Any) -> Any:
        """The answer to a command: the next that is no message."""
        self.say(kind, entry, **fields)
        return next(command for command, _ in self.frames() if command.type != api.BaseCommand.MESSAGE)

    def request(self, kind: str, **fields: Any) -> Any:
        """The answer to a request; PromiseBroken when it is an error."""
        self._requests += 1
        answer = self.ask(kind, request_id=self._requests, **fields)
        if answer.type == api.BaseCommand.ERROR:
            raise PromiseBroken(f"{kind} {fields} is refused: {answer.error.message}")
        return answer

    def frames(self) -> Iterator[tuple[Any, bytes]]:
        """Commands and what follows each."""
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            while len(self._bytes) >= 4:
                (size,) = struct.unpack_from(">I", self._bytes)
                if len(self._bytes) < 4 + size:
                    break
                frame = bytes(self._bytes[4 : 4 + size])
                del self._bytes[: 4 + size]
                (command_size,) = struct.unpack_from(">I", frame)
                yield api.BaseCommand.FromString(frame[4 : 4 + command_size]), frame[4 + command_size :]
            data = self._socket.recv(1 << 20)
            if not data:
                raise PromiseBroken("the broker closed the connection")
            self._bytes += data
        raise TimeoutError


@contextmanager
def _connection(broker: Broker) -> Iterator[_Connection]:
    """A connection after its handshake, closed at the end of the block."""
    connection = _Connection(broker)
    try:
        connection.ask("CONNECT", client_version="judge", protocol_version=21)
        yield connection
    finally:
        connection.close()


class Judge:
    """Judges one broker by one account; `name` is that of the producer of its own messages."""

    def __init__(self, broker: Broker, account: Account, name: str) -> None:
        self._broker = broker
        self._account = account
        self._name = name
        self.entries = 0
        """Entries read."""
        self.open_transactions = 0
        """Transactions that were open after the cut."""
        self.lost_ends = 0
        """Ends of transactions that were asked for and not answered."""

    def judge(self) -> None:
        """Raises PromiseBroken."""
        status, text = self._broker.rest("GET", "/admin/v2/brokers/health")
        self._require(text == "ok", f"health: {status} {text}")
        self._account = self._account.settled(self._end_transactions())
        self._judge_names()
        for name, topic in self._account.topics.items():
            if topic.presence == "there":
                self._judge_topic(name, topic)
        for path, setting in self._account.settings.items():
            status, value = self._broker.rest("GET", quote(path))
            allowed = [setting.stored, *setting.asked]
            held = value in allowed or (value == "" and None in allowed)
            self._require(held, f"{path}: {status} {value!r}, it may be one of {allowed!r}")

    def _require(self, holds: bool, text: str) -> None:
        if not holds:
            raise PromiseBroken(text)

    def _end_transactions(self) -> dict[TransactionKey, bool]:
        """Ends all transactions that are open, and finds out whether the others were committed. What was asked for is
        asked for again, so that another judge, after another cut, finds out the same."""
        outcomes: dict[TransactionKey, bool] = {}
        with _connection(self._broker) as connection:
            for key, transaction in self._account.transactions.items():
                action = transaction.asked
                if action is None:
                    action = api.ABORT if transaction.is_short or key[1] % 2 else api.COMMIT
                answer = connection.request("END_TXN", txn_action=action, **_ids(key)).endTxnResponse
                was_open = not answer.HasField("error")
                text = f"transaction {key}: END_TXN answers {answer.error}: {answer.message}"
                self._require(was_open or answer.error == api.TransactionNotFound, text)
                is_known = transaction.is_committed is not None
                self._require(not (is_known and was_open), f"transaction {key} is open again, which was ended")
                was_asked = transaction.asked is not None or transaction.is_short
                self._require(was_open or was_asked, f"transaction {key} is gone, which nobody ended")
                self.open_transactions += was_open
                self.lost_ends += transaction.asked is not None and not is_known
                outcomes[key] = bool(transaction.is_committed) if is_known else action == api.COMMIT
            opened = connection.request("NEW_TXN", txn_ttl_millis=SHORT_MS - 1, tc_id=0).newTxnResponse
            key = opened.txnid_most_bits, opened.txnid_least_bits
            self._require(key not in outcomes, f"transaction {key} is given out again")
        return outcomes

    def _judge_names(self) -> None:
        listed: set[str] = set()
        for namespace in sorted({name.split("://")[1].rpartition("/")[0] for name in self._account.topics}):
            status, names = self._broker.rest("GET", f"/admin/v2/persistent/{namespace}")
            self._require(status == 200, f"topics of {namespace}: {status} {names}")
            listed.update(names)
        for name, topic in self._account.topics.items():
            self._require(name in listed or topic.presence != "there", f"{name} is gone")
            self._require(name not in listed or topic.presence not in ("gone", "never"), f"{name} is there again")
        invented = listed - self._account.topics.keys()
        self._require(not invented, f"topics that nobody made: {sorted(invented)}")

    def _judge_topic(self, name: str, topic: Topic) -> None:
        status, found = self._broker.rest("GET", f"{topic_path(name)}/subscriptions")
        self._require(status == 200, f"{name}: subscriptions: {status} {found}")
        for subscription, known in topic.subscriptions.items():
            self._require(subscription in found or known.presence != "there", f"{name}: {subscription} is gone")
            self._require(subscription not in found or known.presence != "gone", f"{name}: {subscription} is back")
        self._require(set(found) <= topic.subscriptions.keys(), f"{name}: subscriptions that nobody made: {found}")
        last = self._publish(name)
        stored = self._read(name, last, "judge", durable=False, start_message_id=_EARLIEST)
        del stored[last]
        self._judge_stored(name, topic, stored)
        self._judge_producers(name, topic, stored)
        for subscription, known in topic.subscriptions.items():
            if known.presence == "there":
                self._judge_subscription(name, subscription, known, stored, last)
        if "view" in name:
            self._judge_view(name, stored, last)
        if topic.schemas_asked:
            path = name.removeprefix("persistent://")
            status, schemas = self._broker.rest("GET", f"/admin/v2/schemas/{path}/schemas")
            count = len(schemas["getSchemaResponses"]) if status == 200 else 0
            text = f"{name}: {count} schemas, answered were {topic.schemas}, asked for {topic.schemas_asked}"
            self._require(topic.schemas <= count <= topic.schemas_asked, text)

    def _publish(self, name: str) -> Place:
        """Publishes a message of the judge's; it comes after all others."""
        metadata = {"producer_name": self._name, "sequence_id": 0, "partition_key": self._name}
        entry = entry_bytes(metadata | {"publish_time": time.time_ns() // 1_000_000}, b"after the cut")
        with _connection(self._broker) as connection:
            connection.request("PRODUCER", topic=name, producer_id=1, producer_name=self._name)
            receipt = connection.ask("SEND", entry, producer_id=1, sequence_id=0)
        self._require(receipt.type == api.BaseCommand.SEND_RECEIPT, f"{name}: takes no message: {receipt}")
        place = receipt.send_receipt.message_id
        return place.ledgerId, place.entryId

    def _read(self, topic: str, last: Place, subscription: str, **how: Any) -> dict[Place, Stored]:
        """All entries that a consumer gets, up to `last`."""
        how = {"subType": "Exclusive", "initialPosition": "Earliest"} | how
        found: dict[Place, Stored] = {}
        with _connection(self._broker) as connection:
            connection.request("SUBSCRIBE", topic=topic, subscription=subscription, consumer_id=1, **how)
            connection.say("FLOW", consumer_id=1, messagePermits=_PERMITS)
            try:
                for command, rest in connection.frames():
                    if command.type != api.BaseCommand.MESSAGE:
                        continue
                    place = command.message.message_id.ledgerId, command.message.message_id.entryId
                    self._require(place not in found, f"{topic}: {subscription} gets {place} twice")
                    found[place] = _stored(command.message, rest)
                    if place == last:
                        return found
            except TimeoutError:
                pass
        raise PromiseBroken(f"{topic}: {subscription} never gets {last}, which was stored")

    def _judge_stored(self, name: str, topic: Topic, stored: dict[Place, Stored]) -> None:
        """Every entry is what was sent; every receipt has its entry, unless all subscriptions may be through with
        it."""
        places: dict[tuple[str, int], Place] = {}
        for place, found in sorted(stored.items()):
            producer, sequence_id = found.metadata.producer_name, found.metadata.sequence_id
            sent = topic.sent.get(producer, {}).get(sequence_id)
            if sent is None:
                raise PromiseBroken(f"{name}: {place} holds {producer}/{sequence_id}, which nobody sent")
            text = f"{name}: {place} is of transaction {sent.transaction}, which was aborted"
            self._require(not self._account.is_aborted(sent), text)
            self._require(sent.entry == found.entry, f"{name}: {place} is not what {producer} sent as {sequence_id}")
            told = sent.place in (None, place) and (producer, sequence_id) not in places
            self._require(told, f"{name}: {producer}/{sequence_id} is at {place}, its receipt said {sent.place}")
            places[producer, sequence_id] = place
        for producer, sent_by_id in topic.sent.items():
            self._judge_order(name, topic, producer, sent_by_id, places)

    def _judge_order(
        self, name: str, topic: Topic, producer: str, sent: dict[int, Sent], places: dict[tuple[str, int], Place]
    ) -> None:
        before, missing = (-1, -1), None
        subscriptions = [each for each in topic.subscriptions.values() if each.presence != "gone"]
        for sequence_id, entry in sent.items():
            if self._account.is_aborted(entry):
                continue
            place = places.get((producer, sequence_id))
            if place is None:
                at = entry.place
                needed = at is not None and not all(each.may_be_acked(at) for each in subscriptions)
                self._require(not needed, f"{name}: {producer}/{sequence_id} is lost, its receipt said {at}")
                missing = sequence_id if at is None else missing
                continue
            self._require(place > before, f"{name}: {producer}/{sequence_id} at {place} comes after {before}")
            text = f"{name}: {producer}/{sequence_id} is stored without {missing}, which was sent before"
            self._require(missing is None, text)
            before = place

    def _judge_producers(self, name: str, topic: Topic, stored: dict[Place, Stored]) -> None:
        """De-duplication knows the last sequence id of each producer."""
        last: dict[str, int] = {}
        for found in stored.values():
            producer, sequence_id = found.metadata.producer_name, found.metadata.sequence_id
            last[producer] = max(last.get(producer, -1), topic.sent[producer][sequence_id].last_sequence_id)
        with _connection(self._broker) as connection:
            for number, (producer, sent) in enumerate(topic.sent.items()):
                answer = connection.request("PRODUCER", topic=name, producer_id=number, producer_name=producer)
                known = answer.producer_success.last_sequence_id
                promised = [each for each, entry in sent.items() if entry.place is not None]
                low = max([last.get(producer, -1), *(sent[each].last_sequence_id for each in promised)])
                high = max([low, *(each.last_sequence_id for each in sent.values())])
                text = f"{name}: the last sequence id of {producer} is {known}, stored is {low}, sent was {high}"
                self._require(low <= known <= high, text)
                if promised:
                    entry = sent[promised[-1]].entry
                    receipt = connection.ask("SEND", entry, producer_id=number, sequence_id=promised[-1])
                    message_id = receipt.send_receipt.message_id
                    text = f"{name}: {producer}/{promised[-1]} is stored once more"
                    self._require(message_id.ledgerId == NO_PLACE, text)

    def _judge_subscription(
        self, topic: str, name: str, known: Subscription, stored: dict[Place, Stored], last: Place
    ) -> None:
        delivered = self._read(topic, last, name, subType="Shared")
        del delivered[last]
        strange = delivered.keys() - stored.keys()
        self._require(not strange, f"{topic}: {name} gets entries that a reader does not: {sorted(strange)[:5]}")
        now_ms = time.time_ns() // 1_000_000
        for place, found in stored.items():
            again = delivered.get(place)
            if again is None:
                is_due = found.metadata.deliver_at_time <= now_ms - 60_000
                if not (known.is_latest or known.may_be_acked(place) or not is_due):
                    raise PromiseBroken(f"{topic}: {name} never gets {place}, which nobody acknowledged")
                continue
            self._require(again.entry == found.entry, f"{topic}: {name} gets {place} with other bytes")
            self._require(not known.is_acked(place), f"{topic}: {name} gets {place} again, which is acknowledged")
            is_early = found.metadata.deliver_at_time > now_ms + 60_000
            self._require(not is_early, f"{topic}: {name} gets {place} too early")
            acked = known.acked_indexes.get(place, 0)
            left = (1 << found.metadata.num_messages_in_batch) - 1 if again.left is None else again.left
            text = f"{topic}: {name} gets {place} with the indexes {left:b}, of which {acked:b} are acknowledged"
            self._require(known.is_sought or not left & acked, text)
            asked = known.asked_indexes.get(place, 0)
            whole = (1 << found.metadata.num_messages_in_batch) - 1
            text = f"{topic}: {name} gets {place} with the indexes {left:b}, asked for were only {asked:b}"
            self._require(known.is_sought or left | asked == whole, text)

    def _judge_view(self, name: str, stored: dict[Place, Stored], last: Place) -> None:
        """The compacted view has the last message of each key."""
        view = self._read(name, last, "view", durable=False, start_message_id=_EARLIEST, read_compacted=True)
        del view[last]
        wanted = {found.metadata.partition_key: place for place, found in sorted(stored.items())}
        for place, found in view.items():
            self._require(place in stored, f"{name}: the compacted view has {place}, which is not stored")
            self._require(found.entry == stored[place].entry, f"{name}: the compacted view has other bytes at {place}")
        shown = {found.metadata.partition_key: place for place, found in sorted(view.items())}
        self._require(shown == wanted, f"{name}: the compacted view is not that of the last values: {shown} {wanted}")


def _stored(message: Any, rest: bytes) -> Stored:
    entry = checked_entry(rest)
    (size,) = struct.unpack_from(">I", entry, 6)
    metadata = api.MessageMetadata.FromString(entry[10 : 10 + size])
    words = message.ack_set
    left = sum((word & NO_PLACE) << (64 * at) for at, word in enumerate(words)) if words else None
    return Stored(entry, metadata, left)


def _ids(key: TransactionKey) -> dict[str, int]:
    return {"txnid_most_bits": key[0], "txnid_least_bits": key[1]}
