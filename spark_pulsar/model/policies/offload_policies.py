"""Offload policies: where Apache Pulsar moves old ledgers to, and when. They are stored and answered; one disk offloads
nothing (ADM-52)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spark_pulsar.model.limits import INT, LONG

from .json_values import InvalidPolicy, MalformedPolicy, members, number

DRIVERS: Final = ("S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss")
THRESHOLD_BYTES: Final = "managedLedgerOffloadThresholdInBytes"
THRESHOLD_S: Final = "managedLedgerOffloadThresholdInSeconds"
DELETION_LAG_MS: Final = "managedLedgerOffloadDeletionLagInMillis"

_DRIVER: Final = "managedLedgerOffloadDriver"
_BUCKETS: Final = ("managedLedgerOffloadBucket", "s3ManagedLedgerOffloadBucket", "gcsManagedLedgerOffloadBucket")
_EXTRA: Final = "managedLedgerExtraConfigurations"
_PRIORITY: Final = "managedLedgerOffloadedReadPriority"
_PRIORITIES: Final = ("bookkeeper-first", "tiered-storage-first")
_NUMBERS: Final[Mapping[str, int]] = {
    **dict.fromkeys(
        (
            "managedLedgerOffloadMaxThreads",
            "managedLedgerOffloadReadThreads",
            "managedLedgerOffloadPrefetchRounds",
            "s3ManagedLedgerOffloadMaxBlockSizeInBytes",
            "s3ManagedLedgerOffloadReadBufferSizeInBytes",
            "gcsManagedLedgerOffloadMaxBlockSizeInBytes",
            "gcsManagedLedgerOffloadReadBufferSizeInBytes",
            "managedLedgerOffloadMaxBlockSizeInBytes",
            "managedLedgerOffloadReadBufferSizeInBytes",
        ),
        INT,
    ),
    **dict.fromkeys((THRESHOLD_BYTES, THRESHOLD_S, DELETION_LAG_MS), LONG),
}
"""Members that hold a number, with the largest."""
_TEXTS: Final = frozenset(
    {
        "offloadersDirectory",
        _DRIVER,
        *_BUCKETS,
        *(f"s3ManagedLedgerOffload{end}" for end in ("Region", "ServiceEndpoint", "CredentialId", "CredentialSecret")),
        *(f"s3ManagedLedgerOffload{end}" for end in ("Role", "RoleSessionName")),
        *(f"gcsManagedLedgerOffload{end}" for end in ("Region", "ServiceAccountKeyFile")),
        *(f"managedLedgerOffload{end}" for end in ("Region", "ServiceEndpoint")),
        "fileSystemProfilePath",
        "fileSystemURI",
    }
)
_MOST_CHARACTERS: Final = 4_096
_MOST_EXTRAS: Final = 100
_DEFAULTS: Final[Mapping[str, Any]] = {
    "offloadersDirectory": "./offloaders",
    "managedLedgerOffloadMaxThreads": 2,
    "managedLedgerOffloadReadThreads": 2,
    "managedLedgerOffloadPrefetchRounds": 1,
    _EXTRA: {},
    "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 64 * 1024 * 1024,
    "s3ManagedLedgerOffloadReadBufferSizeInBytes": 1024 * 1024,
    "s3ManagedLedgerOffloadRoleSessionName": "pulsar-s3-offload",
    "gcsManagedLedgerOffloadMaxBlockSizeInBytes": 128 * 1024 * 1024,
    "gcsManagedLedgerOffloadReadBufferSizeInBytes": 1024 * 1024,
}
"""Values that Apache Pulsar returns for unset members."""


def read_offload_policies(value: object) -> dict[str, Any]:
    """Reads offload policies, those of no driver too; members that Apache Pulsar does not know are left out."""
    body = members(value, "offloadPolicies")
    policies: dict[str, Any] = {}
    for member, item in body.items():
        if item is None:
            continue
        if member in _NUMBERS:
            policies[member] = number(item, member, _NUMBERS[member])
        elif member in _TEXTS:
            policies[member] = _text(item, member)
        elif member == _EXTRA:
            policies[member] = _extras(item)
        elif member == _PRIORITY:
            if item not in _PRIORITIES:
                raise MalformedPolicy(f"{_PRIORITY}: want one of {', '.join(_PRIORITIES)}, got {item!r}")
            policies[member] = item
    return policies


def complete_offload_policies(value: object) -> dict[str, Any]:
    """Reads offload policies as a request may set them: with a driver and, unless that is a file system, a bucket."""
    if value is None:
        raise InvalidPolicy("The offloadPolicies must be specified for namespace offload.")
    policies = read_offload_policies(value)
    driver = policies.get(_DRIVER, "")
    if driver.lower() not in {name.lower() for name in DRIVERS}:
        raise InvalidPolicy(f"The driver is not supported, support value: {','.join(DRIVERS)}")
    if driver.lower() != "filesystem" and not any(policies.get(bucket) for bucket in _BUCKETS):
        raise InvalidPolicy("The bucket must be specified for namespace offload.")
    return policies


def shown_offload_policies(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON that is answered: with the defaults, and what Apache Pulsar returns of the driver."""
    driver = str(stored.get(_DRIVER, "")).lower()
    kinds = {
        "s3Driver": driver in ("s3", "aws-s3"),
        "gcsDriver": driver == "google-cloud-storage",
        "fileSystemDriver": driver == "filesystem",
    }
    return {**_DEFAULTS, **stored, **kinds}


def _text(value: object, member: str) -> str:
    if not isinstance(value, str | int | float) or len(str(value)) > _MOST_CHARACTERS:
        raise MalformedPolicy(f"{member}: want a text of at most {_MOST_CHARACTERS} characters")
    return str(value)


def _extras(value: object) -> dict[str, str]:
    extras = members(value, _EXTRA)
    if len(extras) > _MOST_EXTRAS:
        raise MalformedPolicy(f"{_EXTRA}: want at most {_MOST_EXTRAS} members, got {len(extras)}")
    return {_text(name, _EXTRA): _text(item, _EXTRA) for name, item in extras.items()}
