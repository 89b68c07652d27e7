"""The official Java client of this run's Apache Pulsar, unmodified, by its own API.

Objects and calls go through Py4J, which Spark brings. Nothing is compiled, so that a Java that only runs programs is
enough. The jars are those of the broker that judges: it has the client in it.
"""

from __future__ import annotations

from collections import deque
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.apache_pulsar.start import class_path

RECEIVE_TIMEOUT_S = 60
"""Only a failure waits that long."""


class Java:
    """A Java process; `jvm` has all its classes. One that is killed keeps all objects: what Python drops is not told to
    a process that is gone."""

    def __init__(self, *, is_killed: bool = False) -> None:
        spark = find_spec("pyspark")
        assert spark is not None
        assert spark.origin is not None
        (jar,) = Path(spark.origin).with_name("jars").glob("py4j-*.jar")
        port, self._process = launch_gateway(
            jarpath=str(jar),
            classpath=class_path(),
            javaopts=["-XX:TieredStopAtLevel=1", "-Xmx256m"],
            die_on_exit=True,
            return_proc=True,
            redirect_stdout=deque(maxlen=100),
        )
        parameters = GatewayParameters(port=port, auto_convert=True, enable_memory_management=not is_killed)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self.jvm = self._gateway.jvm
        self.api = self.jvm.org.apache.pulsar.client.api

    def class_of(self, name: str) -> Any:
        """A class as an object."""
        return self.jvm.java.lang.Class.forName(name)

    def client(self, url: str, *, transactions: bool = False) -> JavaClient:
        """A client of a broker."""
        return JavaClient(self, self.api.PulsarClient.builder().serviceUrl(url).enableTransaction(transactions).build())

    def texts(self, *values: str) -> Any:
        """An array of texts."""
        array = self._gateway.new_array(self.jvm.java.lang.String, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array

    def close(self) -> None:
        """End the process."""
        self._gateway.shutdown()
        self.kill()

    def kill(self) -> None:
        """End it at once (SIGKILL), whatever it is at."""
        self._process.kill()
        self._process.wait()
        self._gateway.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


class JavaClient:
    """One client."""

    def __init__(self, java: Java, client: Any) -> None:
        self._java = java
        self.client = client

    def producer(self, topic: str, schema: Any) -> Any:
        """A producer of values of a schema."""
        return self.client.newProducer(schema).topic(topic).create()

    def consumer(self, topic: str, schema: Any, subscription: str = "s", type_: str = "Exclusive") -> Any:
        """A consumer of values of a schema, from the first message on."""
        earliest = self._java.api.SubscriptionInitialPosition.Earliest
        kind = getattr(self._java.api.SubscriptionType, type_)
        builder = self.client.newConsumer(schema).topic(self._java.texts(topic)).subscriptionName(subscription)
        return builder.subscriptionInitialPosition(earliest).subscriptionType(kind).subscribe()

    def begin(self, timeout_ms: int = 60_000) -> Any:
        """A transaction."""
        unit = self._java.jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        return self.client.newTransaction().withTransactionTimeout(timeout_ms, unit).build().get()

    def receive(self, consumer: Any) -> Any:
        """The next message."""
        message = consumer.receive(RECEIVE_TIMEOUT_S, self._java.jvm.java.util.concurrent.TimeUnit.SECONDS)
        assert message is not None, "no message came"
        return message
