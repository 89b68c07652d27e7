"""Bodies of REST calls: the right shape for each path, then changed, or anything else."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any, Final

from tests.fuzz import values

_ID: Final = {"ledgerId": 1, "entryId": 0, "partitionIndex": -1, "batchIndex": -1}
_RATE: Final = {"dispatchThrottlingRateInMsg": 1_000, "dispatchThrottlingRateInByte": 10**6, "ratePeriodInSecond": 1}
_SCHEMA: Final = {
    "type": "AVRO",
    "schema": '{"type":"record","name":"R","fields":[{"name":"f","type":"int"}]}',
    "properties": {"a": "b"},
}
_SHAPES: Final[dict[str, Any]] = {
    "{cluster}": {"serviceUrl": "http://x:8080", "brokerServiceUrl": "pulsar://x:6650"},
    "{tenant}": {"adminRoles": ["a"], "allowedClusters": ["standalone"]},
    "{namespace}": {
        "replication_clusters": ["standalone"],
        "bundles": {"numBundles": 4},
        "retention_policies": {"retentionTimeInMinutes": 1},
    },
    "{topic}": {"a": "b"},
    "properties": {"a": "b"},
    "replication": ["standalone"],
    "retention": {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10},
    "messageTTL": 100,
    "persistence": {
        "bookkeeperEnsemble": 1,
        "bookkeeperWriteQuorum": 1,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": 1.0,
    },
    "deduplication": True,
    "deduplicationEnabled": True,
    "subscriptionTypesEnabled": ["Exclusive", "Shared", "Failover", "Key_Shared"],
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 60,
        "deleteWhileInactive": True,
    },
    "delayedDelivery": {"active": True, "tickTime": 1_000, "maxDeliveryDelayInMillis": 0},
    "publishRate": {"publishThrottlingRateInMsg": 1_000, "publishThrottlingRateInByte": 10**6},
    "dispatchRate": _RATE,
    "subscriptionDispatchRate": _RATE,
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": 1_000, "ratePeriodInSecond": 1},
    "autoTopicCreation": {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2},
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": True},
    "schemaCompatibilityStrategy": "ALWAYS_COMPATIBLE",
    "schemaAutoUpdateCompatibilityStrategy": "Full",
    "isAllowAutoUpdateSchema": True,
    "schemaValidationEnforced": False,
    "encryptionRequired": False,
    "backlogQuota": {"limitSize": 10**9, "limitTime": 3_600, "policy": "consumer_backlog_eviction"},
    "partitions": 3,
    "{subscription}": _ID,
    "resetcursor": _ID,
    "expireMessages": _ID,
    "trim": _ID,
    "analyzeBacklog": _ID,
    "backlogSize": _ID,
    "schema": _SCHEMA,
    "compatibility": _SCHEMA,
    "version": _SCHEMA,
}
"""Right bodies by the last word of a path; other paths take a number or none."""

_SMALL_BYTES: Final = 300
"""Size of a list that may be repeated: longer ones would grow beyond all measure."""


def body(choices: Random, path: str) -> bytes:
    """Draws the body of a call of this path, as `ROUTES` has it."""
    way = choices.random()
    if way < 0.03:
        return choices.choice(
            (b"{", b"[1,", b'{"a":', b"\xff\xfe{}", b"nul", b"{'a':1}", b'"\\ud800"', b"1 2", b"\0", b"--")
        )
    if way < 0.05:
        depth = choices.choice((99, 100, 101, 900, 20_000))
        return choices.choice((b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"[" * depth))
    if way < 0.07:
        return choices.choice(
            (b'{"a":1,' * 1 + b'"a":2}', b"9" * 5_000, b"-" + b"9" * 400, b"1e400", b'"' + b"x" * 1_100_000 + b'"')
        )
    if way < 0.12:
        return choices.randbytes(choices.choice((0, 1, 50, 2_000)))
    last = path.rpartition("/")[2]
    wanted = copy.deepcopy(_SHAPES.get(last, choices.choice((10, 0, 1_000, None, ""))))
    if way < 0.2:
        wanted = copy.deepcopy(choices.choice(list(_SHAPES.values())))
    if choices.random() < 0.6:
        for _ in range(choices.choice((1, 1, 2, 4))):
            wanted = _changed(choices, wanted)
    return json.dumps(wanted, ensure_ascii=choices.random() < 0.5).encode("utf-8", "surrogatepass")


def _changed(choices: Random, value: Any) -> Any:
    """Returns the value with one thing in it changed."""
    if isinstance(value, dict) and value and choices.random() < 0.85:
        name = choices.choice(list(value))
        way = choices.random()
        if way < 0.15:
            del value[name]
        elif way < 0.3:
            value[values.text(choices)[:300]] = values.json_value(choices)
        else:
            value[name] = _changed(choices, value[name])
        return value
    if isinstance(value, list) and value and choices.random() < 0.7:
        index = choices.randrange(len(value))
        if choices.random() < 0.2:
            times = choices.choice((0, 2, 1_000)) if len(json.dumps(value)) < _SMALL_BYTES else 0
            return [copy.deepcopy(each) for _ in range(times) for each in value]
        value[index] = _changed(choices, value[index])
        return value
    if isinstance(value, int | float) and choices.random() < 0.6:
        return choices.choice((1, 1, -1)) * values.integer(choices) * choices.choice((1, 1, 1, 0.5))
    return values.json_value(choices)
