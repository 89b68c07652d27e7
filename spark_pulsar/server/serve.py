"""The entry point of a broker process."""

from __future__ import annotations

import gc

from spark_pulsar.server.config.settings import ServerConfig


def serve(config: ServerConfig) -> int:
    """Run a broker until SIGTERM or SIGINT, then close it cleanly and return the exit status (0).

    Prints `ready pulsar://127.0.0.1:PORT http://127.0.0.1:PORT` on standard output when it accepts connections;
    logs go to standard error.
    """
    gc.disable()  # nothing that a start imports is garbage; the runner enables it again
    from .runner import run

    return run(config)
