"""The table of policies as JSON, for the page: what each one means, and the command and keys that set it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.broker.configuration.keys import keys_of
from spark_pulsar.model.policies.policy_columns import Written
from spark_pulsar.model.policies.policy_table import POLICIES

if TYPE_CHECKING:
    from spark_pulsar.model.policies.policy_columns import Level, Option, Policy


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
        "isRemovable": not policy.shows,
        "options": [_option(option) for option in policy.options],
        "namespace": _level(policy, policy.namespace),
        "topic": _level(policy, policy.topic),
    }


def _option(option: Option) -> dict[str, Any]:
    """Returns a member of a policy's value, and the option of the command that sets it."""
    names = option.names.split()
    return {
        "member": option.member,
        "flag": names[0],
        "off": names[1] if option.written is Written.SWITCH else "",
        "written": option.written.name,
        "help": option.help,
        "isOptional": option.default is None,
    }


def _level(policy: Policy, level: Level | None) -> dict[str, Any] | None:
    """Returns the calls and commands of a policy at one level, None where it cannot be set."""
    if level is None:
        return None
    return {
        "path": level.path,
        "command": level.word or policy.word,
        "flag": level.names.partition(" ")[0],
        "method": level.method,
        "parameter": level.parameter,
        "removal": level.removal,
        "canDelete": level.can_delete,
    }
