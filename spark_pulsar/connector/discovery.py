"""Lets Spark find `format("pulsar")` by itself; shipped as the top-level module `pyspark_pulsar`. (Topics are found by
`planning.topic_partitions`, OFFSET-11.)

Spark imports every `pyspark_*` module on its path and takes the attribute `DefaultSource`. One module that fails there
hides the sources of all others, so this one imports nothing before it is called, and answers "no such attribute"
instead of an error when the connector cannot be loaded. `spark_pulsar.register(spark)` then reports the error.
"""

import logging
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from spark_pulsar.connector.registering import check_installed_spark

        check_installed_spark()
        from spark_pulsar.connector.source import PulsarDataSource
    except Exception as error:  # whatever it is, other data sources must stay discoverable
        logging.getLogger("spark_pulsar").warning('format("pulsar") is not available: %s', error)
        raise AttributeError(f"{name}: {error}") from error
    return PulsarDataSource
