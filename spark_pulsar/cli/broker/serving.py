"""`spark-pulsar broker`."""

import gc
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from spark_pulsar.model.extras import require
from spark_pulsar.server.configuration.reading import KEYS, InvalidConfiguration, load_config


def run_broker(conf: Path | None, overrides: Mapping[str, object], with_parent: bool, log_level: str = "info") -> int:
    """Serves until SIGTERM or SIGINT and returns the exit status: 1 when the broker cannot start, with one line that
    says why."""
    try:
        config = load_config(conf, overrides)
    except (InvalidConfiguration, OSError) as error:
        _say(f"{conf}: {error}" if isinstance(error, InvalidConfiguration) and conf else str(error))
        return 1
    for key in config.unknown_keys:
        _say(f"{conf}: unknown key {key}, ignored{_meant(key)}")
    if config.unsupported_keys:
        verb = "has" if len(config.unsupported_keys) == 1 else "have"
        _say(f"{conf}: {', '.join(config.unsupported_keys)} {verb} no effect in this broker")
    if config.broker.retains_nothing_by_mistake:
        _say(
            f"{conf}: of defaultRetentionTimeInMinutes and defaultRetentionSizeInMB only one is 0, so that nothing is "
            "retained; -1 would leave that limit out"
        )
    missing = [name for name in ("uvloop", "numpy") if find_spec(name) is None]
    if missing:
        _say(f"serves without {' and '.join(missing)}; faster with: pip install {' '.join(missing)}")
    require("a broker", "h11", "prometheus_client", "re2", "starlette", "uvicorn")
    gc.disable()  # nothing that a start imports is garbage; the runner enables it again
    from spark_pulsar.server.runner import run

    try:
        return run(replace(config, with_parent=with_parent, log_level=log_level.upper()))
    except InvalidConfiguration as error:  # found by what the key is for
        _say(f"{conf}: {error}" if conf else str(error))
        return 1
    except OSError as error:  # port taken, directory not writable or in use
        _say(f"cannot start: {error}")
        return 1


def _meant(key: str) -> str:
    from difflib import get_close_matches  # for mistakes only

    near = get_close_matches(key, KEYS, 1)
    return f": did you mean {near[0]}?" if near else ""


def _say(text: str) -> None:
    sys.stderr.write(f"spark-pulsar broker: {text}\n")
