"""Schema of a read: that of all its topics, looked up where the read is planned."""

from __future__ import annotations

from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.timeouts import naming
from spark_pulsar.connector.planning.topic_partitions import topics_of_pattern
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.lookup import common_definition
from spark_pulsar.connector.worker import own_client


@naming("operationTimeoutMs")
def definition_of_read(options: Options) -> Definition | None:
    """Returns the schema of the topics to read; None when they have none, or it is not to be used.

    A topic that does not exist has none. Raises SchemaError when the schemas of several topics differ.
    """
    if not options.use_topic_schema:
        return None
    with own_client(options) as client:
        if options.topics_pattern is not None:
            topics = topics_of_pattern(client, options.topics_pattern)
        else:
            topics = list(options.named_topics)
        return common_definition(client, topics, options.allow_different_topic_schemas)
