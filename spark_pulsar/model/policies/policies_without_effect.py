"""Rows of policies that are stored and answered and change nothing on one node: they are about other clusters, other
storage, or other code (ADM-50, ADM-54)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from .json_values import InvalidPolicy, MalformedPolicy, members, truth
from .offload_policies import (
    DRIVERS,
    THRESHOLD_BYTES,
    THRESHOLD_S,
    complete_offload_policies,
    read_offload_policies,
    shown_offload_policies,
)
from .policy_columns import Kind, Level, Null, Option, Policy, Written
from .policy_kinds import dispatch_rate_policy

REPLICATION_CLUSTERS: Final = "replication_clusters"
ALLOWED_CLUSTERS: Final = "allowed_clusters"
REPLICATOR_DISPATCH_RATE: Final = "replicator_dispatch_rate"
SHADOW_TOPICS: Final = "shadowTopics"
OFFLOAD_POLICIES: Final = "offload_policies"
ENTRY_FILTERS: Final = "entryFilters"
PAUSE_ON_ACK_STATE: Final = "dispatcherPauseOnAckStatePersistentEnabled"
BOOKIE_AFFINITY: Final = "bookieAffinity"

_NAMES: Final = "entryFilterNames"
_AFFINITY_GROUPS: Final = ("bookkeeperAffinityGroupPrimary", "bookkeeperAffinityGroupSecondary")
MOST_NAMES: Final = 100
"""Clusters, topics or filters of one policy."""
_MOST_CHARACTERS: Final = 4_096

_ONE_CLUSTER: Final = "this broker is its whole cluster and copies no messages to another"


def names(value: object, what: str) -> list[str]:
    """Reads a list of names, each once."""
    if not isinstance(value, list):
        raise MalformedPolicy(f"{what}: want a list of names")
    if len(value) > MOST_NAMES:
        raise MalformedPolicy(f"{what}: want at most {MOST_NAMES} names, got {len(value)}")
    for text in value:
        if not isinstance(text, str) or not text or len(text) > _MOST_CHARACTERS:
            raise MalformedPolicy(f"{what}: want texts of at most {_MOST_CHARACTERS} characters, got {text!r:.80}")
    return list(dict.fromkeys(value))


def _store_replication(body: Any, level: Level) -> Any:
    if not body:
        raise InvalidPolicy("ClusterIds should not be null or empty")
    clusters = names(body, level.path)
    if "global" in clusters:
        raise InvalidPolicy("Cannot specify global in the list of replication clusters")
    return clusters


def _store_shadow_topics(body: Any, level: Level) -> Any:
    if not body:
        raise InvalidPolicy("Cannot specify empty shadow topics, please use remove command instead.")
    return names(body, level.path)


def _read_filters(value: object) -> str:
    joined = members(value, ENTRY_FILTERS).get(_NAMES)
    words = [] if joined is None or isinstance(joined, list | dict) else str(joined).split(",")
    if not any(word.strip() for word in words):
        raise MalformedPolicy("entryFilterNames can't be empty. To remove entry filters use the remove method.")
    if len(words) > MOST_NAMES or len(str(joined)) > _MOST_CHARACTERS:
        raise MalformedPolicy(f"{_NAMES}: want at most {MOST_NAMES} names and {_MOST_CHARACTERS} characters")
    return str(joined)


def _read_affinity(value: object) -> dict[str, str]:
    body = members(value, BOOKIE_AFFINITY)
    groups = {member: str(body[member]) for member in _AFFINITY_GROUPS if body.get(member) is not None}
    if any(len(text) > _MOST_CHARACTERS for text in groups.values()):
        raise MalformedPolicy(f"{BOOKIE_AFFINITY}: want texts of at most {_MOST_CHARACTERS} characters")
    return groups


ROWS: Final = (
    Policy(
        REPLICATION_CLUSTERS,
        Kind("list of clusters", partial(names, what="replication"), _store_replication, make=lambda name: [name]),
        "the clusters that messages are copied to.",
        Level("replication", can_delete=False, set_status=200, unset_is_default=True),
        Level("replication", word="replication-clusters"),
        policy_name="REPLICATION",
        field="replication_clusters",
        word="clusters",
        options=(Option("", "--clusters -c", Written.WORDS, "Clusters by commas."),),
        defaults=("cluster_name",),
        without_effect=_ONE_CLUSTER,
    ),
    Policy(
        ALLOWED_CLUSTERS,
        Kind("list of clusters", partial(names, what="allowedClusters"), lambda body, level: names(body, level.path)),
        "the clusters that topics may be copied to.",
        Level("allowedClusters", can_delete=False, set_status=200, unset=[]),
        None,
        policy_name="ALLOW_CLUSTERS",
        word="allowed-clusters",
        options=(Option("", "--clusters -c", Written.WORDS, "Clusters by commas."),),
        without_effect=_ONE_CLUSTER,
    ),
    dispatch_rate_policy(
        REPLICATOR_DISPATCH_RATE,
        "replicator_dispatch_rate",
        "the maximum rate of copying messages to other clusters.",
        "replicatorDispatchRate",
        "replicator-dispatch-rate",
        policy_name="REPLICATION_RATE",
        without_effect=_ONE_CLUSTER,
    ),
    Policy(
        SHADOW_TOPICS,
        Kind("list of topics", partial(names, what="shadowTopics"), _store_shadow_topics),
        "the topics that show the same messages.",
        None,
        Level("shadowTopics", method="PUT", applied=False),
        policy_name="SHADOW_TOPIC",
        word="shadow-topics",
        options=(Option("", "--topics -t", Written.WORDS, "Topics by commas."),),
        without_effect="shadow topics are for other clusters, and this broker is its whole cluster",
    ),
    Policy(
        OFFLOAD_POLICIES,
        Kind(
            "object",
            read_offload_policies,
            lambda body, _: shown_offload_policies(complete_offload_policies(body)),
            lambda stored: shown_offload_policies(stored) if stored else None,
            make=dict,
        ),
        "the place and the time of moving old ledgers.",
        Level("offloadPolicies", removal="removeOffloadPolicies"),
        Level("offloadPolicies"),
        policy_name="OFFLOAD",
        field="offload_policies",
        word="offload-policies",
        options=(
            Option("managedLedgerOffloadDriver", "--driver -d", Written.TEXT, f"{', '.join(DRIVERS)}."),
            Option("managedLedgerOffloadBucket", "--bucket -b", Written.TEXT, "Bucket.", None),
            Option("managedLedgerOffloadRegion", "--region -r", Written.TEXT, "Region.", None),
            Option("managedLedgerOffloadServiceEndpoint", "--endpoint -e", Written.TEXT, "Address.", None),
            Option(THRESHOLD_BYTES, "--offloadAfterThreshold -oat", Written.BYTES, "Size of a topic: 10G.", None),
            Option(THRESHOLD_S, "--offloadThresholdInSeconds -oats", help="Age of messages.", default=None),
        ),
        without_effect="this broker keeps all ledgers on its one disk",
    ),
    Policy(
        ENTRY_FILTERS,
        Kind(
            "object",
            _read_filters,
            lambda body, _: {_NAMES: _read_filters(body)},
            lambda joined: {_NAMES: joined},
            make=str,
        ),
        "the filters, Java classes, that pick each consumer's messages.",
        Level("entryFilters", null=Null.REMOVES),
        Level("entryFilters", null=Null.REMOVES),
        policy_name="ENTRY_FILTERS",
        field="entry_filters",
        word="entry-filters",
        options=(Option(_NAMES, "--entry-filters-name -efn", Written.TEXT, "Filters by commas."),),
        without_effect="this broker runs no Java code: consumers get every message",
    ),
    Policy(
        PAUSE_ON_ACK_STATE,
        Kind("true or false", partial(truth, what=PAUSE_ON_ACK_STATE), lambda _body, _level: True, make=bool),
        "whether consumers wait when there are more acknowledgements than are stored.",
        Level("dispatcherPauseOnAckStatePersistent", unset=False),
        Level("dispatcherPauseOnAckStatePersistent", unset=False),
        policy_name="DISPATCHER_PAUSE_ON_ACK_STATE_PERSISTENT",
        field="pause_on_ack_state",
        word="dispatcher-pause-on-ack-state-persistent",
        without_effect="this broker stores every acknowledgement",
    ),
    Policy(
        BOOKIE_AFFINITY,
        Kind("object", _read_affinity, lambda body, _: _read_affinity(body)),
        "the bookies that ledgers are stored on.",
        Level("persistence/bookieAffinity", null=Null.REMOVES, unset_status=204),
        None,
        policy_name="PERSISTENCE",
        word="bookie-affinity-group",
        options=(
            Option(_AFFINITY_GROUPS[0], "--primary-group -pg", Written.TEXT, "Group of bookies."),
            Option(_AFFINITY_GROUPS[1], "--secondary-group -sg", Written.TEXT, "Group of bookies.", None),
        ),
        without_effect="this broker stores on its one disk, without bookies",
    ),
)
"""All of them."""
