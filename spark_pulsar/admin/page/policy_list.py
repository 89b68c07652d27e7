"""The table of policies as JSON, for the page: what each one means, and the command and keys that set it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.broker.configuration.keys import keys_of
from spark_pulsar.model.policies.policy_table import POLICIES

if TYPE_CHECKING:
    from spark_pulsar.model.policies.policy_columns import Level, Policy


def policy_list() -> bytes:
    """Writes the table of policies as JSON."""
    keys = {field: name for name, (field, _) in keys_of(BrokerConfig).items()}
    return json.dumps([_row(policy, keys) for policy in POLICIES], separators=(",", ":")).encode()


def _row(policy: Policy, keys: dict[str, str]) -> dict[str, Any]:
    return {
        "name": policy.member,
        "type": policy.kind.name,
        "meaning": policy.meaning[:1].upper() + policy.meaning[1:],
        "withoutEffect": policy.without_effect,
        "keys": [keys[field] for field in policy.defaults],
        "namespace": _level(policy, policy.namespace),
        "topic": _level(policy, policy.topic),
    }


def _level(policy: Policy, level: Level | None) -> dict[str, str] | None:
    """Returns the path of a policy and the word of its commands, None where it cannot be set."""
    return None if level is None else {"path": level.path, "command": level.word or policy.word}
