"""Sends and receives with the official client, in the environment that runs this file."""

from __future__ import annotations

import sys

import pulsar


def main(service_url: str) -> None:
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    for codec in (pulsar.CompressionType.LZ4, pulsar.CompressionType.ZSTD, pulsar.CompressionType.SNAPPY):
        topic = f"messages-{codec}".lower().replace(".", "-")
        consumer = client.subscribe(topic, "matrix", initial_position=pulsar.InitialPosition.Earliest)
        producer = client.create_producer(topic, compression_type=codec, block_if_queue_full=True)
        for number in range(50):
            producer.send_async(b"message %d" % number, None, partition_key=str(number % 3))
        producer.flush()
        for number in range(50):
            message = consumer.receive(20_000)
            assert message.data() == b"message %d" % number
            consumer.acknowledge(message)
    client.close()


if __name__ == "__main__":
    main(sys.argv[1])
