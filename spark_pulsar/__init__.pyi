from spark_pulsar.client.retry_letters import RetryLetters
from spark_pulsar.connector.letters.frames import dead_letters, replayed_letters, retry_letters
from spark_pulsar.connector.offsets.starting_offsets import starting_offsets
from spark_pulsar.connector.progress.explain import explain
from spark_pulsar.connector.registering import register
from spark_pulsar.connector.schemas.copying import copy_schemas
from spark_pulsar.connector.tables import read_batches, read_table, send_table
from spark_pulsar.testing.process import BrokerProcess, broker_process

__version__: str
__all__ = [
    "BrokerProcess",
    "RetryLetters",
    "__version__",
    "broker_process",
    "copy_schemas",
    "dead_letters",
    "explain",
    "read_batches",
    "read_table",
    "register",
    "replayed_letters",
    "retry_letters",
    "send_table",
    "starting_offsets",
]
