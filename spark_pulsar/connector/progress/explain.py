"""Progress of a streaming query in a line or two: read, left to read (READ-31: `lag`), rate, time of a micro-batch, and
advice (READ-4, READ-32).

`explain` reads the last progress events of Spark's query object, of a classic session or of Spark Connect;
`explain_progress` is a pure function of those. Spark has no place for a source's own metrics or description (see
docs/connector-operations.md), so all that it reports is in the offsets and in `latestOffset`, which are ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.model.arguments import naming_arguments
from spark_pulsar.model.names import TopicName

Event = Mapping[str, Any]

_LONG_MS: Final = 100
"""Parts of a micro-batch below this are not worth advice."""
_MUCH: Final = 0.4
_MOST_TOPICS: Final = 3
_PARTS: Final = {
    "addBatch": "the work",
    "getBatch": "the batch",
    "latestOffset": "querying the brokers",
    "queryPlanning": "planning",
    "walCommit": "checkpoint files",
    "commitOffsets": "checkpoint files",
    "commitBatch": "checkpoint files",
}
_ADVICE: Final = {
    "checkpoint files": "put the checkpoint on a faster file system, or set "
    "spark.sql.streaming.checkpointFileManagerClass where one query writes it on a local disk (docs: Latency)",
    "querying the brokers": "brokers are slow or far, or a limit makes the driver count ahead: raise the limit, read "
    "fewer partitions, or use a longer trigger",
    "planning": "a plan that is made anew for each micro-batch takes long: simplify it, or use a longer trigger",
}


@naming_arguments()
def explain(query: Any) -> str:
    """Returns how far a streaming query is, how far behind, how fast, and what to do if something is odd.

    `query` is a StreamingQuery; only its sources of `format("pulsar")` are described in detail.
    """
    if not hasattr(query, "recentProgress"):
        raise TypeError(f"explain() describes a StreamingQuery, which .start() returns, not {type(query).__name__}")
    recent = [_event(progress) for progress in query.recentProgress]
    name = query.name or query.id
    failure = None if query.isActive else query.exception()
    if failure is not None:
        head = f"{name} has failed: {str(failure).strip().splitlines()[0]}"
    else:
        head = f"{name} is {'running' if query.isActive else 'stopped'}"
    return f"{head}\n{explain_progress(recent)}"


def explain_progress(recent: Sequence[Event]) -> str:
    """Returns the text of `explain` for progress events, the oldest first."""
    if not recent:
        return "no micro-batch is done yet"
    last = recent[-1]
    sources = [source for source in last.get("sources", ()) if _reported(source) is not None]
    others = len(last.get("sources", ())) - len(sources)
    lines = [_source(source) for source in sources] or ["none of its sources is pulsar"]
    if others and sources:
        lines[-1] += f"; {others} more source{'s' if others > 1 else ''} not of pulsar"
    lines.append(_pace(recent))
    lines += [f"to do: {advice}" for advice in _advice(recent)]
    return "\n".join(lines)


_SUMS: Final = ("numInputRows", "inputRowsPerSecond", "processedRowsPerSecond")


def _event(progress: Any) -> Event:
    """Returns a progress event as a mapping. That of Spark Connect leaves the sums over the sources out (READ-45)."""
    # Its JSON first: as a mapping PySpark 4.0 and 4.1 have the offsets as Python prints them.
    loaded: Event = json.loads(progress.json) if hasattr(progress, "json") else progress
    sources = loaded.get("sources") or ()
    sums = {name: sum(source.get(name) or 0 for source in sources) for name in _SUMS if loaded.get(name) is None}
    return {**loaded, **sums}


def _reported(source: Event) -> Mapping[str, Any] | None:
    """Returns what the source reported about its newest offsets; None where it is not ours. Spark 4.0 and 4.1 request
    no report, and the end of the micro-batch takes its place (SPARK-4)."""
    latest = _json(source.get("latestOffset")) or _json(source.get("endOffset"))
    if latest is None or not isinstance(latest.get("positions"), Mapping):
        return None
    return latest if "lag" in latest or "version" in latest else None


def _json(value: Any) -> Mapping[str, Any] | None:
    try:
        loaded = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return loaded if isinstance(loaded, Mapping) else None


def _source(source: Event) -> str:
    latest = _reported(source) or {}
    return f"reads {_topics(_partitions(latest))}{_subscription(latest)}: {_behind(latest.get('lag'), latest)}"


def _partitions(latest: Mapping[str, Any]) -> Iterable[str]:
    """Returns the names of the partitions of an offset, which may be packed."""
    try:
        return SourceOffset.from_json(latest).positions
    except OffsetError:  # of a later version
        positions: Mapping[str, Any] = latest["positions"]
        return positions


def _topics(positions: Iterable[str]) -> str:
    partitions: dict[str, int] = {}
    for topic in positions:
        name = TopicName.parse(topic)
        partitions[name.base.full] = partitions.get(name.base.full, 0) + (1 if name.partition >= 0 else 0)
    topics = [
        f"{topic} ({count} partition{'s' if count > 1 else ''})" if count else topic
        for topic, count in partitions.items()
    ]
    more = len(topics) - _MOST_TOPICS
    return (
        ", ".join(topics[:_MOST_TOPICS]) + (f" and {more} more topics" if more > 0 else "")
        if topics
        else "no topic yet"
    )


def _subscription(latest: Mapping[str, Any]) -> str:
    return f" as subscription {latest['subscription']}" if latest.get("subscription") else ""


def _behind(lag: Mapping[str, Any] | None, offset: Mapping[str, Any]) -> str:
    if lag is None:
        rest = "more was there" if offset.get("newest") else "that was all there was"
        return f"{rest} when the last micro-batch was planned; its lag is reported from Spark 4.2 on"
    delayed = lag.get("delayed")
    waiting = ""
    if delayed:
        waiting = f"; {delayed['entries']:,} retry letters wait, the next for {delayed['secondsToNext']:,.1f} s"
    if not lag["messages"]:
        return f"read to the end when the last micro-batch began{waiting}"
    about = "about " if lag.get("estimated") else ""
    size = "" if lag.get("bytes") is None else f", {_size(lag['bytes'])}"
    age = "" if lag.get("seconds") is None else f", the oldest {lag['seconds']:,.1f} s old"
    count = lag["partitions"]
    where = f" in {count} partition{'s' if count > 1 else ''}"
    of = "message" if lag["messages"] == 1 else "messages"
    return f"behind by {about}{lag['messages']:,} {of}{size}{age}{where}{waiting}"


def _size(size_bytes: int) -> str:
    for unit, least in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= least:
            return f"{size_bytes / least:,.1f} {unit}"
    return f"{size_bytes} bytes"


def _durations(event: Event) -> dict[str, int]:
    """Sums up the parts of a micro-batch under their names for users."""
    out: dict[str, int] = {}
    for part, duration_ms in (event.get("durationMs") or {}).items():
        if part in _PARTS:
            out[_PARTS[part]] = out.get(_PARTS[part], 0) + duration_ms
    return out


def _worked(recent: Sequence[Event]) -> list[Event]:
    """Returns the events of micro-batches that had rows; of all, if none had."""
    return [event for event in recent if event.get("numInputRows")] or list(recent)


def _shares(recent: Sequence[Event]) -> tuple[float, dict[str, float]]:
    """Returns the mean time of a micro-batch in ms, and that of its parts."""
    events = _worked(recent)
    total_ms = sum((event.get("durationMs") or {}).get("triggerExecution", 0) for event in events)
    parts: dict[str, float] = {}
    for event in events:
        for part, duration_ms in _durations(event).items():
            parts[part] = parts.get(part, 0) + duration_ms
    return total_ms / len(events), {part: duration_ms / len(events) for part, duration_ms in parts.items()}


def _pace(recent: Sequence[Event]) -> str:
    last = recent[-1]
    total_ms, parts = _shares(recent)
    slowest = sorted(parts.items(), key=lambda item: -item[1])[:2]
    slow_parts = ", ".join(f"{part} {duration_ms:,.0f} ms" for part, duration_ms in slowest if duration_ms)
    rows = _worked(recent)[-1]
    return (
        f"batch {last.get('batchId')} at {last.get('timestamp')}: {rows.get('numInputRows', 0):,} rows, "
        f"{rows.get('processedRowsPerSecond') or 0:,.0f} rows/s; a micro-batch takes {total_ms:,.0f} ms"
        + (f" ({slow_parts})" if slow_parts else "")
    )


def _advice(recent: Sequence[Event]) -> list[str]:
    total_ms, parts = _shares(recent)
    advice = [
        f"{part} take {duration_ms / total_ms:.0%} of a micro-batch: {_ADVICE[part]}"
        for part, duration_ms in parts.items()
        if part in _ADVICE and duration_ms >= _LONG_MS and duration_ms >= _MUCH * total_ms
    ]
    return advice + _of_lag(recent)


def _of_lag(recent: Sequence[Event]) -> list[str]:
    lags = [sum(_messages(source) for source in event.get("sources", ())) for event in recent]
    behind = lags[-3:]
    rows = _worked(recent)[-1].get("numInputRows", 0)
    if len(behind) == 3 and behind[0] < behind[1] < behind[2]:
        return [
            "messages come faster than they are read: raise the limits of a micro-batch "
            f"({rows:,} rows in the last one), give the job more cores, or the topic more partitions"
        ]
    return []


def _messages(source: Event) -> int:
    latest = _reported(source)
    return 0 if latest is None else int((latest.get("lag") or {}).get("messages", 0))
