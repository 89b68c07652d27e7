"""Extras of the package, and the libraries of each: an installation has those that its user chose."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

_EXTRA_OF: Final = {
    "fastavro": "connector",
    "numpy": "connector",
    "pyarrow": "connector",
    "pyspark": "spark",
    "h11": "broker",
    "prometheus_client": "broker",
    "re2": "broker",
    "starlette": "broker",
    "uvicorn": "broker",
    "yaml": "cli",
    "pulsar": "cli",
    "numba": "fast",
    "uvloop": "fast",
    "duckdb": "sql",
    "bcrypt": "security",
    "cryptography": "security",
    "jwt": "security",
    "passlib": "security",
}
"""Libraries as they are imported, and the extra that installs each."""


class MissingLibrary(ModuleNotFoundError):
    """Libraries that something needs and this Python lacks; the message names the extra to install."""


def installation_of(error: ModuleNotFoundError) -> str | None:
    """Returns the sentence that says how to install what an import did not find; None when no extra has it."""
    if isinstance(error, MissingLibrary):
        return str(error)
    library = (error.name or "").partition(".")[0]
    extra = _EXTRA_OF.get(library)
    return None if extra is None else f"{library} is not installed: pip install 'spark-pulsar[{extra}]'"


def require(what: str, *libraries: str) -> None:
    """Raises MissingLibrary unless all these libraries, of one extra, are there; `what` needs them. Imports none."""
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        raise MissingLibrary(
            f"{what} needs {' and '.join(missing)}: pip install 'spark-pulsar[{_EXTRA_OF[missing[0]]}]'",
            name=missing[0],
        )
