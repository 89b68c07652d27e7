"""Transactions in the words of a test: one raw connection that begins, uses and ends them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tests.brokers import Broker, topic_path
from tests.raw import Frame, RawConnection, batch_payload

COORDINATOR = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
ADMIN = "/admin/v3/transactions"
NO_MESSAGE = (2**64 - 1, 2**64 - 1)
"""The position of a topic that has no message to read."""
_numbers = itertools.count(1)

Transaction = tuple[int, int]
"""Its coordinator, and its number there."""
Position = tuple[int, int]


def ids(transaction: Transaction | None) -> dict[str, int]:
    """The fields of commands and metadata that name a transaction."""
    if transaction is None:
        return {}
    return {"txnid_most_bits": transaction[0], "txnid_least_bits": transaction[1]}


def refusal(answer: Frame) -> tuple[str | None, str]:
    """Error and message of an answer; (None, "") when it has none."""
    return answer.fields.get("error"), answer.fields.get("message", "")


def remaining(size: int, *acknowledged: int) -> list[int]:
    """The bit set of an ack inside a batch: one for each message that is left."""
    return [((1 << size) - 1) & ~sum(1 << index for index in acknowledged)]


class Transacting:
    """A connection to coordinator 0 on which producers, consumers and transactions of a test live."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.raw: RawConnection = broker.raw()
        self._sequence_ids: dict[int, int] = {}
        self._producer_names: dict[int, str] = {}
        self.raw.request("LOOKUP", topic=COORDINATOR)
        connected = self.raw.request("TC_CLIENT_CONNECT_REQUEST", tc_id=0)
        assert (connected.type, refusal(connected)) == ("TC_CLIENT_CONNECT_RESPONSE", (None, ""))

    # --- the coordinator ---

    def begin(self, *topics: str, subscriptions: Mapping[str, str] | None = None, ttl_ms: int = 60_000) -> Transaction:
        """Opens a transaction and adds topics, and subscriptions as topic -> name."""
        opened = self.raw.request("NEW_TXN", txn_ttl_millis=ttl_ms, tc_id=0)
        assert (opened.type, refusal(opened)) == ("NEW_TXN_RESPONSE", (None, ""))
        transaction = (opened.fields.get("txnid_most_bits", 0), opened.fields.get("txnid_least_bits", 0))
        if topics:
            assert refusal(self.add_topics(transaction, *topics)) == (None, "")
        for topic, name in (subscriptions or {}).items():
            assert refusal(self.add_subscription(transaction, topic, name)) == (None, "")
        return transaction

    def add_topics(self, transaction: Transaction, *topics: str) -> Frame:
        """The answer to ADD_PARTITION_TO_TXN."""
        return self.raw.request("ADD_PARTITION_TO_TXN", partitions=list(topics), **ids(transaction))

    def add_subscription(self, transaction: Transaction, topic: str, name: str = "s") -> Frame:
        """The answer to ADD_SUBSCRIPTION_TO_TXN."""
        added = [{"topic": topic, "subscription": name}]
        return self.raw.request("ADD_SUBSCRIPTION_TO_TXN", subscription=added, **ids(transaction))

    def end(self, transaction: Transaction, action: str) -> Frame:
        """The answer to END_TXN."""
        return self.raw.request("END_TXN", txn_action=action, **ids(transaction))

    def commit(self, transaction: Transaction) -> None:
        """Commits, and sees that it is done."""
        assert refusal(self.end(transaction, "COMMIT")) == (None, "")

    def abort(self, transaction: Transaction) -> None:
        """Aborts, and sees that it is done."""
        assert refusal(self.end(transaction, "ABORT")) == (None, "")

    # --- producers ---

    def produce(self, topic: str, producer_id: int = 1, **fields: Any) -> None:
        """Opens a producer."""
        self.raw.request("LOOKUP", topic=topic)
        name = self._producer_names[producer_id] = f"p-{next(_numbers)}"
        opened = self.raw.request("PRODUCER", topic=topic, producer_id=producer_id, producer_name=name, **fields)
        assert opened.type == "PRODUCER_SUCCESS", opened
        self._sequence_ids.setdefault(producer_id, 0)

    def publish(
        self,
        payload: bytes,
        transaction: Transaction | None = None,
        producer_id: int = 1,
        *,
        sequence_id: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Frame:
        """Sends one entry; its SEND_RECEIPT or SEND_ERROR."""
        number = self._sequence_ids[producer_id] if sequence_id is None else sequence_id
        self._sequence_ids[producer_id] = number + fields.get("num_messages", 1)
        described = {"producer_name": self._producer_names[producer_id], **(metadata or {}), **ids(transaction)}
        named: dict[str, Any] = {**fields, **ids(transaction)}
        self.raw.send_message(producer_id, number, payload, metadata=described, **named)
        return self.raw.answer_to_send()

    def send(
        self, payload: bytes, transaction: Transaction | None = None, producer_id: int = 1, **more: Any
    ) -> Position:
        """Sends one entry; the position that its receipt tells."""
        receipt = self.publish(payload, transaction, producer_id, **more)
        assert receipt.type == "SEND_RECEIPT", receipt
        return receipt.position

    def send_batch(self, size: int, transaction: Transaction | None = None, producer_id: int = 1) -> Position:
        """Sends a batch of b"0", b"1", ... as one entry."""
        values = [str(number).encode() for number in range(size)]
        return self.send(
            batch_payload(values), transaction, producer_id, metadata={"num_messages_in_batch": size}, num_messages=size
        )

    # --- consumers ---

    def subscribe(
        self, topic: str, kind: str = "Shared", name: str = "s", consumer_id: int = 1, permits: int = 100, **fields: Any
    ) -> None:
        """Subscribes at the first message (unless `fields` say otherwise) and grants permits."""
        self.raw.request("LOOKUP", topic=topic)
        described = {"topic": topic, "subscription": name, "subType": kind, "initialPosition": "Earliest", **fields}
        answer = self.raw.request("SUBSCRIBE", consumer_id=consumer_id, **described)
        assert answer.type == "SUCCESS", answer
        if permits:
            self.raw.send("FLOW", consumer_id=consumer_id, messagePermits=permits)

    def ack(
        self,
        positions: Position | Sequence[Position],
        transaction: Transaction | None = None,
        kind: str = "Individual",
        consumer_id: int = 1,
        **fields: Any,
    ) -> Frame:
        """The ACK_RESPONSE; `fields` (`ack_set`, `batch_size`) are those of each message id."""
        several = [positions] if isinstance(positions, tuple) else positions
        message_ids = [{"ledgerId": ledger_id, "entryId": entry_id, **fields} for ledger_id, entry_id in several]
        answer = self.raw.request(
            "ACK", consumer_id=consumer_id, ack_type=kind, message_id=message_ids, **ids(transaction)
        )
        assert answer.type == "ACK_RESPONSE", answer
        return answer

    def take(self, count: int) -> list[bytes]:
        """The payloads of the next messages, and that no more come."""
        return [bytes(frame.payload or b"") for frame in self.take_frames(count)]

    def take_frames(self, count: int) -> list[Frame]:
        """The next messages, and that no more come."""
        frames = self.raw.expect_messages(count)
        self.raw.expect_no_message()
        return frames

    def redeliver(self, consumer_id: int = 1) -> None:
        """Asks for all that is unacknowledged again."""
        self.raw.send("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=consumer_id)

    def close_consumer(self, consumer_id: int = 1) -> None:
        """Closes a consumer."""
        assert self.raw.request("CLOSE_CONSUMER", consumer_id=consumer_id).type == "SUCCESS"

    def last_position(self, consumer_id: int = 1) -> Position:
        """What GET_LAST_MESSAGE_ID tells."""
        last = self.raw.request("GET_LAST_MESSAGE_ID", consumer_id=consumer_id)["last_message_id"]
        return last["ledgerId"], last["entryId"]

    # --- what the admin API tells ---

    def stats(self, topic: str) -> Any:
        """`topics stats`."""
        return self.broker.stats(topic)

    def backlog(self, topic: str, name: str = "s") -> int:
        """msgBacklog of a subscription."""
        return int(self.stats(topic)["subscriptions"][name]["msgBacklog"])

    def cursor(self, topic: str, name: str = "s") -> tuple[int, str]:
        """The entry that everything up to it is acknowledged, and the ranges behind it, without ledger ids."""
        _, stats = self.broker.rest("GET", f"{topic_path(topic)}/internalStats")
        cursor = stats["cursors"][name]
        ledger_id, _, entry_id = cursor["markDeletePosition"].partition(":")
        return int(entry_id), cursor["individuallyDeletedMessages"].replace(f"{ledger_id}:", "")

    def admin(self, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
        """A call under /admin/v3/transactions."""
        return self.broker.rest(method, f"{ADMIN}/{path}", body)

    def metadata(self, transaction: Transaction) -> tuple[int, Any]:
        """What the coordinator says of a transaction."""
        return self.admin(f"transactionMetadata/{transaction[0]}/{transaction[1]}")


def local(topic: str) -> str:
    """tenant/namespace/name, as paths of the transactions API take it."""
    return topic.partition("://")[2]


def filled(transacting: Transacting, kind: str = "Shared", count: int = 6) -> tuple[str, list[Position]]:
    """A topic of b"0", b"1", ..., all of them delivered to consumer 1 of the subscription `s`."""
    topic = transacting.broker.topic()
    transacting.produce(topic)
    positions = [transacting.send(str(number).encode()) for number in range(count)]
    transacting.subscribe(topic, kind)
    transacting.raw.expect_messages(count)
    return topic, positions


def acking(client: Transacting, kind: str = "Shared", count: int = 6) -> tuple[str, list[Position], Transaction]:
    """The same, and a transaction that the subscription is added to."""
    topic, positions = filled(client, kind, count)
    return topic, positions, client.begin(subscriptions={topic: "s"})
