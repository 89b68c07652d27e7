"""Topics in options: names, lists of names, and the pattern of `topicsPattern`. `planning.topic_partitions` finds them,
and waits for those that do not exist yet (READ-5)."""

from __future__ import annotations

import re
from typing import Final

from spark_pulsar.connector.options.values import names_in
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import TopicName, split_namespace

_PLAIN_NAME: Final = re.compile(r"[\w.=:-]*")


def topic_name(text: str) -> str:
    """Returns the full name of a topic. Raises InvalidTopicName, and ValueError for a list of names."""
    if text.startswith("[") and text.endswith("]"):
        raise ValueError("expected one topic; the option topics names several, separated by commas")
    return TopicName.parse(text).full


def persistent_topic_name(text: str) -> str:
    """Returns the full name of a topic that keeps its messages. Raises ValueError, InvalidTopicName."""
    topic = topic_name(text)
    if topic.startswith("non-persistent://"):
        raise ValueError("a non-persistent topic keeps nothing")
    return topic


def topic_names(text: str) -> tuple[str, ...]:
    """Returns the full names of topics, which are separated by commas or in a JSON array. Raises ValueError,
    InvalidTopicName."""
    names = [topic_name(name) for name in names_in(text)]
    if not names:
        raise ValueError("no topic name in the list")
    double = {name for name in names if names.count(name) > 1}
    if double:
        raise ValueError(f"named more than once: {', '.join(sorted(double))}")
    return tuple(names)


def topic_pattern(text: str) -> str:
    """Checks a pattern of topic names and returns it. Raises ValueError."""
    if not text:
        raise ValueError("empty pattern")
    split_pattern(text)
    return text


def split_pattern(text: str) -> tuple[str, re.Pattern[str]]:
    """Namespace `tenant/namespace` and the compiled regex for local topic names. Raises ValueError."""
    body = text.removeprefix("persistent://")
    if body.startswith("non-persistent://"):
        raise ValueError("non-persistent topics cannot be read: they keep nothing")
    parts = body.split("/", 2)
    if not any(_PLAIN_NAME.fullmatch(part) for part in parts[:-1]):
        parts = [body]  # what slash there is belongs to the regex, as in "orders-[^/]+"
    if len(parts) == 2:
        raise ValueError("expected tenant/namespace/regex, or a regex without slash for public/default")
    namespace, local = (f"{parts[0]}/{parts[1]}", parts[2]) if len(parts) == 3 else ("public/default", body)
    try:
        split_namespace(namespace)
    except InvalidTopicName:
        raise ValueError(f"{namespace!r} is no tenant/namespace; only the local name can be a regex") from None
    try:
        return namespace, re.compile(local)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
