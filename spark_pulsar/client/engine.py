"""The engine of a client: its connections and caches in one process."""

import os

from spark_pulsar.client.config import ClientConfig
from spark_pulsar.client.cursors import Cursors
from spark_pulsar.client.lookup import TopicDirectory
from spark_pulsar.client.pool import ConnectionPool
from spark_pulsar.client.probes import Probes


class Engine:
    """Connections, with the look-ups and probes that use them; made on first use, and anew after a fork."""

    def __init__(self, config: ClientConfig) -> None:
        self.process = os.getpid()
        self.pool = ConnectionPool(config)
        self.directory = TopicDirectory(self.pool)
        self.probes = Probes(self.directory)
        self.cursors = Cursors(self.directory)
