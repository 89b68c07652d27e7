"""A copy of a topic by the official Java client, in a process that can be killed: it receives, sends, acknowledges, and
commits all of it in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError

from tests.brokers import Broker
from tests.clients.crashing import Crash
from tests.clients.java_client import Java, JavaClient

TIMEOUT_MS: Final = 4_000
"""Of a transaction: what a killed client left open is aborted then."""
OPERATION_TIMEOUT_MS: Final = 5_000
PATIENT_MS: Final = 15_000
"""Longer than messages are held by what a killed client left open, and than a broker takes to come back."""
SHORT_MS: Final = 200
AFTER_A_BROKER: Final = 2
"""Transactions after the one in which the broker was killed."""
MOST_MESSAGES: Final = 5
"""Of one transaction."""
# What a transaction may fail with: messages were received a second time, or its time is over on a slow machine.
_MAY_FAIL: Final = ("TransactionConflict", "TransactionNotFound", "InvalidTxnStatus", "TransactionHasOperationFailed")
_MAY_FAIL_WITH_A_BROKER: Final = (*_MAY_FAIL, "TimeoutException", "ConnectException", "MetaStoreHandlerNotReady")


class Killed(Exception):
    """The Java process was killed."""


class Copier:
    """A Java process with a client, a consumer of the source and a producer to the target."""

    def __init__(self, broker: Broker, source: str, target: str, type_: str) -> None:
        self._broker = broker
        self._target = target
        self.java = Java(is_killed=True)
        api, self._ms = self.java.api, self.java.jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        builder = api.PulsarClient.builder().serviceUrl(broker.service_url).enableTransaction(True)
        self.client = JavaClient(self.java, builder.operationTimeout(OPERATION_TIMEOUT_MS, self._ms).build())
        consumer = self.client.client.newConsumer(api.Schema.STRING).topic(self.java.texts(source))
        consumer = consumer.subscriptionName("s").subscriptionType(getattr(api.SubscriptionType, type_))
        consumer = consumer.subscriptionInitialPosition(api.SubscriptionInitialPosition.Earliest)
        self._consumer = consumer.subscribe()
        producer = self.client.client.newProducer(api.Schema.STRING).topic(target).sendTimeout(0, self._ms)
        self._producer = producer.create()
        self.failures: list[str] = []
        """Of transactions that it went on after."""
        self._may_fail = _MAY_FAIL
        self._is_crashed = False
        self.unanswered = 0
        """Commits that were not answered when the crash came."""

    def run(self, crash: Crash) -> bool:
        """Copies until the process is killed; whether the crash came before the messages ended. After a broker's it
        goes on with a few more."""
        done, left = 0, 1 + AFTER_A_BROKER
        with suppress(Killed):
            while left and (messages := self._received(PATIENT_MS)):
                self._try(messages, crash if done >= crash.transactions and not self._is_crashed else None)
                done += 1
                left -= self._is_crashed
        self.java.kill()
        return self._is_crashed

    def drain(self, is_done: Callable[[], bool]) -> None:
        """Copies until it is done."""
        while not is_done():
            if messages := self._received(SHORT_MS):
                self._try(messages, None)

    def _try(self, messages: list[Any], crash: Crash | None) -> None:
        try:
            self._copy(messages, crash)
        except Py4JJavaError as error:
            cause = str(error.java_exception.toString())
            if not any(each in cause for each in self._may_fail):
                raise
            self.failures.append(cause)
            self._consumer.redeliverUnacknowledgedMessages()

    def _received(self, wait_ms: int) -> list[Any]:
        messages: list[Any] = []
        while len(messages) < MOST_MESSAGES:
            message = self._consumer.receive(wait_ms if not messages else 20, self._ms)
            if message is None:
                break
            messages.append(message)
        return messages

    def _copy(self, messages: list[Any], crash: Crash | None) -> None:
        self._reached("received", crash)
        transaction = self.client.client.newTransaction().withTransactionTimeout(TIMEOUT_MS, self._ms).build().get()
        try:
            for message in messages:
                self._producer.newMessage(transaction).value(message.getValue()).sendAsync()
            self._reached("sent", crash)
            acks = [self._consumer.acknowledgeAsync(each.getMessageId(), transaction) for each in messages]
            self._reached("acknowledged", crash)
            for ack in acks:
                ack.get()
            ending = transaction.commit()
            self._reached("committing", crash, ending)
            ending.get()
        except Py4JJavaError:
            with suppress(Py4JError):
                transaction.abort().get()
            raise
        self._reached("committed", crash)

    def copy_without_acks(self) -> None:
        """The same without a transaction, once: killed between the sends and the acks."""
        for message in self._received(PATIENT_MS):
            self._producer.newMessage().value(message.getValue()).send()
        self.java.kill()

    def _reached(self, step: str, crash: Crash | None, ending: Any = None) -> None:
        if crash is None or crash.step != step:
            return
        crash.wait()
        self._is_crashed = True
        self.unanswered += ending is not None and not ending.isDone()
        if crash.victim == "client":
            self.java.kill()
            raise Killed
        self._may_fail = _MAY_FAIL_WITH_A_BROKER
        self._broker.kill()
        self._broker.restart()

    def copied(self) -> list[str]:
        """All of the target, as a reader sees it."""
        api = self.java.api
        reader = self.client.client.newReader(api.Schema.STRING).topic(self._target)
        reader = reader.startMessageId(api.MessageId.earliest).create()
        found = []
        while reader.hasMessageAvailable():
            message = reader.readNext(60, self.java.jvm.java.util.concurrent.TimeUnit.SECONDS)
            assert message is not None, f"no message came after {found}"
            found.append(message.getValue())
        reader.close()
        return found
