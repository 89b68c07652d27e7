"""Parsing of options: Spark's strings as `Options`.

The fields of `Options` are the single list of names; the parser accepts nothing else, and answers a name that is close
to one of them with a suggestion. Names are matched without case, as everywhere in Spark (READ-27), those of Kafka's
source by `aliases` (READ-21).
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.aliases import given_values
from spark_pulsar.connector.options.catalog_tables import no_options, refuse_table
from spark_pulsar.connector.options.java_settings import PREFIXES, names_below
from spark_pulsar.connector.options.options import AT_LEAST_ONCE, BY_FIELD, BY_LOWER, OPTIONS, Options
from spark_pulsar.connector.options.security import read_security, read_service_url
from spark_pulsar.connector.options.table import OF_STREAMNATIVE, UNSUPPORTED
from spark_pulsar.connector.options.values import GivenValues, read

_UNSUPPORTED_LOWER: Final = {name.lower(): (name, hint) for name, hint in UNSUPPORTED.items()}

# What Spark itself puts among a source's options.
_SPARK_OWN: Final = frozenset({"path", "checkpointlocation", "queryname", "serialization.format"})

_EXCLUSIVE: Final = (
    ("topic", "topics", "topicsPattern"),
    ("subscriptionName", "predefinedSubscription"),
    ("startingOffsets", "startingTime"),
    ("endingOffsets", "endingTime"),
)
"""Options that say the same thing in different words."""

LOG: Final = logging.getLogger("spark_pulsar")
_REPORTED: Final[set[str]] = set()

_DIRECTORY: Final = re.compile(r"(?!(?:non-)?persistent://)[A-Za-z][A-Za-z0-9+.-]*:/|file:|/")


def parse_options(raw: Mapping[str, str]) -> Options:
    """Turns Spark's option strings into `Options` (READ-7). Raises OptionError."""
    values = _values_by_name(raw)
    service_url = read_service_url(values)
    security = read_security(values, service_url)
    parsed = {field: read(values, row.name, row.read, row.value) for field, row in BY_FIELD.items()}
    return Options(
        service_url=service_url,
        security=security,
        **parsed | _other_defaults(parsed, values),
        given=frozenset(values),
        lenient={name: values.spelling(name) for name in (values.lenient | OF_STREAMNATIVE) & values.keys()},
        without_effect=values.without_effect,
    )


def is_option(name: str) -> bool:
    """Returns whether this is the name of an option, in any case."""
    return name.lower() in BY_LOWER


def report_without_effect(options: Options) -> None:
    """Logs which options of a job are accepted and have no effect here, once in this process for the same topics and
    options (READ-44)."""
    if not options.without_effect:
        return
    reasons = "; ".join(f"{name} ({reason})" for name, reason in sorted(options.without_effect.items()))
    of = ", ".join(options.named_topics) or options.topics_pattern or options.service_url
    line = f"{of}: options without effect here: {reasons}"
    if line not in _REPORTED:
        _REPORTED.add(line)
        LOG.warning("%s", line)


def _other_defaults(parsed: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Returns the defaults, of options that are not given, that depend on others."""
    other: dict[str, Any] = {}
    if parsed["subscription_name"] is None:
        other["subscription_name"] = parsed["predefined_subscription"]
    if {"minPartitions", "maxRecordsPerPartition"} & values.keys():
        other["small_batch_max_messages"] = 0
    if parsed["delivery_guarantee"] != AT_LEAST_ONCE:
        other |= {"batching_max_messages": 10_000, "batching_max_bytes": 1024 * 1024}
    return {field: value for field, value in other.items() if BY_FIELD[field].name not in values}


def _values_by_name(raw: Mapping[str, str]) -> GivenValues:
    """Returns the texts of the options that are given, by their names in the table, a path as the option `topic`.
    Raises OptionError."""
    refuse_table(raw, {lower: option.name for lower, option in BY_LOWER.items()})
    path = next((value for key, value in raw.items() if key.lower() == "path"), None)
    ours = {key: value for key, value in raw.items() if key.lower() not in _SPARK_OWN}
    values = given_values(ours, lambda key: _canonical(key.lower(), key), lambda key: key.lower() in BY_LOWER)
    for names in _EXCLUSIVE:
        if len(given := [values.spelling(name) for name in names if name in values]) > 1:
            raise OptionError(f"options {' and '.join(given)} contradict each other: give exactly one of them")
    if path is not None and _names_a_topic(path):
        if given := [values.spelling(name) for name in _EXCLUSIVE[0] if name in values]:
            raise OptionError(f"the path {path!r} and the option {given[0]} contradict each other: both name topics")
        values["topic"] = path  # load("flights") is short for option("topic", "flights")
    if not values.get("service.url", "").strip():
        raise OptionError(
            'option service.url is required, for example "pulsar://localhost:6650"' + ("" if raw else no_options())
        )
    return values


def _names_a_topic(path: str) -> bool:
    """Returns whether a path comes from `load("flights")`, and is not the directory that Spark has for a table."""
    return bool(path.strip()) and _DIRECTORY.match(path) is None


def _canonical(lower: str, as_given: str) -> str:
    option = BY_LOWER.get(lower)
    if option is not None:
        return option.name
    if lower in _UNSUPPORTED_LOWER:
        name, hint = _UNSUPPORTED_LOWER[lower]
        raise OptionError(f"option {name} is not supported yet: {hint}")
    for prefix in PREFIXES:
        if lower.startswith(prefix):
            near = _near(lower.removeprefix(prefix), prefix, 0.6)
            hint = f"; did you mean {near}?" if near else " (docs/migrating.md has the settings that there are)"
            raise OptionError(f"unknown option {as_given}{hint}")
    if lower.startswith("kafka."):
        raise OptionError(
            f"option {as_given}: settings of Kafka's clients are not supported; "
            "see connectionTimeoutMs, operationTimeoutMs, compressionType, batchingMaxMessages and their neighbours"
        )
    near = _near(lower, "", 0.6)
    hint = f"did you mean {near}?" if near else "docs/connector-options.md lists those that there are"
    raise OptionError(f"unknown option {as_given}; {hint}")


def _near(lower: str, prefix: str, cutoff: float) -> str:
    """Names the options behind `prefix` that a name without it is close to; empty for none."""
    names = [*(option.name for option in OPTIONS if prefix or not option.name.startswith(PREFIXES))]
    names += names_below(prefix) if prefix else []
    known = {name.lower().removeprefix(prefix): name for name in names if name.lower().startswith(prefix)}
    near = difflib.get_close_matches(lower, list(known), n=3, cutoff=cutoff)
    return " or ".join(known[name] for name in near)
