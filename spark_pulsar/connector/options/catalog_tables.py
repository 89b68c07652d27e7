"""Tables of Spark's catalog: refused where their options are lost, with the statement to use instead.

Spark 4.3 stores options of `CREATE TABLE … USING pulsar`, and hands none of them on when the table is read or written.
A table without columns shows when it is made: Spark requests its columns, with the properties of the table. One with
columns shows by its lack of options when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spark_pulsar.client.connections.service_url import without_user
from spark_pulsar.client.secret import REDACTED
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.values import SECRET_OPTIONS

_PROVIDER: Final = "provider"
"""Property of a table that Spark puts among the options when it requests its columns."""

_EXAMPLE: Final = {"service.url": "pulsar://localhost:6650", "topic": "flights"}


def refuse_table(raw: Mapping[str, str], names: Mapping[str, str]) -> None:
    """Refuses to be a table of the catalog; `names` are the options that there are, by their names in lower case
    (READ-28). Raises OptionError."""
    if _PROVIDER not in map(str.lower, raw):
        return
    given = {names[key.lower()]: value for key, value in raw.items() if key.lower() in names}
    raise OptionError(
        "Spark hands no options on when a table of its catalog is used, so what CREATE TABLE makes cannot be read; "
        f"use a view: {view_statement(given)}"
    )


def view_statement(given: Mapping[str, str] = _EXAMPLE) -> str:
    """Returns the statement that makes a view with these options; secrets are left to be filled in (READ-27)."""
    shown = {name: REDACTED if name in SECRET_OPTIONS else without_user(value) for name, value in given.items()}
    options = ", ".join(f"`{name}` '{_quoted(value)}'" for name, value in shown.items())
    return f"CREATE TEMPORARY VIEW flights USING pulsar OPTIONS ({options})"


def no_options() -> str:
    """Returns what to do where Spark gave no options at all."""
    return (
        " (Spark hands no options on for a table of its catalog: use a view, "
        f"{view_statement()}, or name them in the query: SELECT * FROM flights WITH (`service.url` = '…', topic = '…'))"
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
