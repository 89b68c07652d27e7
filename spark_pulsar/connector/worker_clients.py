"""A Spark worker process: what its tasks share, above all one wire client for each broker.

Spark runs many short tasks in a few long-lived worker processes; a client that stays connected saves every one of
them a handshake and a lookup. Workers that idle for a minute are ended by Spark, and the connections end with them.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
from importlib.util import find_spec
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.task_log import LOG, begin_records

_CLIENTS: Final[dict[ClientConfig, PulsarClient]] = {}
_TASKS: Final = itertools.count(1)
_is_numba_frozen = False


def begin_task() -> None:
    """Prepares the process for a task; every task calls it first, after its imports.

    Spark's workers collect all garbage after each task, which walks everything that numba and pyarrow made when they
    were imported: about 0.1 s of processor time a task, more than a small micro-batch needs. When the second task
    begins, Spark has just collected; the remaining objects live as long as the process, and later collections leave it
    out. So it is for the task after the one that came to need numba.
    """
    global _is_numba_frozen
    begin_records()
    number = next(_TASKS)
    if number == 1 and find_spec("numba") is None and "NUMBA_DISABLE_JIT" not in os.environ:  # else it is on purpose
        LOG.warning("numba is missing, messages are decoded slowly: pip install 'spark-pulsar[fast]' on every node")
    is_numba_loaded = "numba" in sys.modules
    if number == 2 or (number > 2 and is_numba_loaded and not _is_numba_frozen):
        gc.freeze()
        _is_numba_frozen = is_numba_loaded


def own_client(options: Options) -> PulsarClient:
    """Makes a client for the caller alone, which closes it: nothing of it stays on the broker after that."""
    return PulsarClient(_config(options))


def client_for(options: Options) -> PulsarClient:
    """Returns the process's client for these options; opened on first use, never closed by its users (READ-8)."""
    config = _config(options)
    client = _CLIENTS.get(config)
    if client is None:
        client = _CLIENTS[config] = PulsarClient(config)
    return client


def _config(options: Options) -> ClientConfig:
    return ClientConfig(
        service_url=options.service_url,
        connect_timeout_ms=options.connection_timeout_ms,
        operation_timeout_ms=options.operation_timeout_ms,
        keep_alive_interval_ms=1_000 * options.keep_alive_interval_seconds,
        authentication=options.security.authentication,
        tls=options.security.tls,
        listener_name=options.security.listener_name,
        sni_proxy_url=options.security.sni_proxy_url,
        subscription_prefix=options.subscription_prefix,
    )
