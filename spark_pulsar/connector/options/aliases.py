"""Aliases: options of Spark's Kafka source and of StreamNative's connector that mean the same here as one of ours
(READ-21).

An alias is read as our option, its value turned into the form of ours. Errors name what the user wrote. What means
something else under its name is refused (see `table.UNSUPPORTED`). Settings of the Java client are in `java_settings`
(READ-43): they never contradict what is said by an option, which wins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.java_settings import JavaSetting, in_order, java_setting
from spark_pulsar.connector.options.values import GivenValues
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.names import TopicName


@dataclass(frozen=True, slots=True)
class Alias:
    """Name that is read as an option of ours; None: nothing is to be set, whatever is allowed as its value."""

    name: str
    option: str | None
    read: Callable[[str], str] = str


def _partitions(text: str) -> str:
    """Reads Kafka's `{"topic": [0, 1]}` as names of partitions."""
    names: list[str] = []
    for topic, numbers in _object(text, '{"topic": [0, 1]}').items():
        if not isinstance(numbers, list) or not numbers:
            raise ValueError(f"expected a list of partitions of {topic}")
        names += [_partition(topic, number) for number in numbers]
    return ",".join(names)


def _times(text: str) -> str:
    """Reads Kafka's `{"topic": {"0": 1764288000000}}` as times by partition."""
    times: dict[str, Any] = {}
    for topic, of_topic in _object(text, '{"topic": {"0": 1764288000000}}').items():
        if not isinstance(of_topic, dict) or not of_topic:
            raise ValueError(f"expected an object of partition to milliseconds for {topic}")
        times |= {_partition(topic, number): time_ms for number, time_ms in of_topic.items()}
    return json.dumps(times)


def _object(text: str, example: str) -> dict[str, Any]:
    try:
        loaded = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(loaded, dict) or not loaded:
        raise ValueError(f"expected a JSON object such as {example}")
    return loaded


def _partition(topic: str, number: object) -> str:
    if isinstance(number, bool) or not str(number).isdecimal():
        raise ValueError(f"{number!r} is no partition of {topic}")
    return TopicName.parse(topic).at_partition(int(str(number))).full


def _only(allowed: str, otherwise: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() != allowed:
            raise ValueError(otherwise)
        return text

    return read


ALIASES: Final = (
    Alias("subscribe", "topics"),
    Alias("subscribePattern", "topicsPattern"),
    Alias("assign", "topics", _partitions),
    Alias("startingTimestamp", "startingTime"),
    Alias("endingTimestamp", "endingTime"),
    Alias("startingOffsetsByTimestamp", "startingTime", _times),
    Alias("endingOffsetsByTimestamp", "endingTime", _times),
    Alias("maxOffsetsPerTrigger", "maxMessagesPerTrigger"),
    Alias("minOffsetsPerTrigger", "minMessagesPerTrigger"),
    Alias("includeHeaders", None, _only("false", "leave it out: __messageProperties is always there")),
)
_BY_LOWER: Final = {alias.name.lower(): alias for alias in ALIASES}


def given_values(
    raw: Mapping[str, str], canonical: Callable[[str], str], is_ours: Callable[[str], bool]
) -> GivenValues:
    """Returns the texts of the options by our names; `canonical` gives the name of an option that is no alias, and
    `is_ours` singles out settings of the Java client that are options here.

    Raises OptionError for a value that an alias cannot have here, and for one thing that is said under two names.
    """
    values = GivenValues()
    java = {}
    for key, text in raw.items():
        setting = java_setting(key)
        if setting is not None and not is_ours(key):
            java[setting] = text
            continue
        alias = _BY_LOWER.get(key.lower())
        if alias is None:
            name, spelled = canonical(key), ""
        else:
            try:
                text = alias.read(text.strip())  # the text in our form
            except (ValueError, PulsarError) as error:
                raise OptionError(f"option {alias.name} = {text!r}: {error}") from error
            if alias.option is None:
                continue
            name, spelled = alias.option, alias.name
        if name in values:
            both = sorted((values.spelling(name), spelled or name))
            raise OptionError(f"options {' and '.join(both)} say the same thing: give one of them")
        values[name] = text
        if spelled:
            values.spelled[name] = spelled
    for setting in in_order(java):
        _accept(setting, java[setting].strip(), values)
    return values


def _accept(setting: JavaSetting, text: str, values: GivenValues) -> None:
    """Sets the option that a setting of the Java client is read as; notes where it has no effect. Raises
    OptionError."""
    try:
        converted = setting.read(text)
    except (ValueError, PulsarError) as error:
        raise OptionError(f"option {setting.name} = {text!r}: {error}") from error
    if not setting.option or converted is None:
        values.without_effect[setting.name] = setting.reason
    elif setting.needs and setting.needs not in values:
        values.without_effect[setting.name] = f"{setting.needs} is not given"
    elif setting.option in values:
        values.without_effect[setting.name] = f"{values.spelling(setting.option)} says it"
    else:
        values[setting.option] = converted
        values.spelled[setting.option] = setting.name
        values.lenient.add(setting.option)
