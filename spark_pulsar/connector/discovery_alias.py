"""Lets Spark find `format("pulsar-py")`, the second name; shipped as `pyspark_pulsar_py`. See `discovery`.

It stands alone, since `discovery` has another name in an installation.
"""

import logging
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from spark_pulsar.connector.registering import check_installed_spark

        check_installed_spark()
        from spark_pulsar.connector.source import PulsarPyDataSource
    except Exception as error:  # whatever it is, other data sources must stay discoverable
        logging.getLogger("spark_pulsar").warning('format("pulsar-py") is not available: %s', error)
        raise AttributeError(f"{name}: {error}") from error
    return PulsarPyDataSource
