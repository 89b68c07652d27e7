"""The set-, get- and remove-commands of policies, for namespaces and for topics: they differ in their paths alone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from spark_pulsar.cli.admin_values import show, size_bytes, switched, time_s, whole_mib, whole_minutes
from spark_pulsar.model.policies import DESTINATION_STORAGE, INACTIVE_MODES, QUOTA_POLICIES, QUOTA_TYPES

Size = Annotated[str, typer.Option("--size", "-s", help="Size limit: 10M, 16G, 1T; -1 is no limit, 0 keeps nothing.")]
Time = Annotated[str, typer.Option("--time", "-t", help="Time limit: 100m, 3h, 2d; -1 is no limit, 0 keeps nothing.")]
QuotaType = Annotated[str, typer.Option("--type", "-t", help=f"{' or '.join(QUOTA_TYPES)}.")]
Enable = Annotated[bool, typer.Option("--enable", "-e")]
Disable = Annotated[bool, typer.Option("--disable", "-d")]
Global = Annotated[bool, typer.Option("--global", "-g", help="The value for all clusters (topics only).")]
Applied = Annotated[
    bool, typer.Option("--applied", "-ap", help="What holds, also from namespace and broker (topics only).")
]


@dataclass(frozen=True, slots=True)
class Target:
    """What the commands of one group are about: its argument, its REST path, and what it calls policies."""

    metavar: str
    path: Callable[[str], str]
    is_topic: bool
    segments: dict[str, str] = field(default_factory=dict)
    """Last segments of paths where they are not those of a namespace."""

    def of(self, name: str, policy: str) -> str:
        """The path of a policy."""
        return f"{self.path(name)}/{self.segments.get(policy, policy)}"

    def query(self, for_all_clusters: bool = False, applied: bool = False) -> dict[str, object]:
        """The query of a call; namespaces know neither word."""
        wanted = {"isGlobal": for_all_clusters, "applied": applied}
        asked: dict[str, object] = {word: True for word, is_asked in wanted.items() if is_asked}
        if asked and not self.is_topic:
            raise typer.BadParameter("--global and --applied are for topics")
        return asked


PLAIN = {
    "retention": "retention",
    "message-ttl": "messageTTL",
    "persistence": "persistence",
    "deduplication": "deduplication",
    "deduplication-snapshot-interval": "deduplicationSnapshotInterval",
    "compaction-threshold": "compactionThreshold",
    "inactive-topic-policies": "inactiveTopicPolicies",
    "delayed-delivery": "delayedDelivery",
}
"""Command word of each policy that is read and removed as a whole, and its path segment."""


def add_policy_commands(app: typer.Typer, target: Target) -> None:
    """Register them all on a group."""
    for word, policy in PLAIN.items():
        add_get_and_remove(app, target, word, policy)
    _add_retention(app, target)
    _add_ttl(app, target)
    _add_quotas(app, target)
    _add_persistence(app, target)
    _add_deduplication(app, target)
    _add_compaction(app, target)
    _add_inactive(app, target)
    _add_delayed(app, target)


def add_get_and_remove(app: typer.Typer, target: Target, word: str, policy: str) -> None:
    """`get-WORD` and `remove-WORD`."""
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command(f"get-{word}", help=f"Show {policy}; null when it is not set.")
    def get(ctx: typer.Context, name: str = argument, for_all: Global = False, applied: Applied = False) -> None:
        show(ctx.obj.get(target.of(name, policy), **target.query(for_all, applied)))

    @app.command(f"remove-{word}", help=f"Remove {policy}, so that what is below it holds.")
    def remove(ctx: typer.Context, name: str = argument, for_all: Global = False) -> None:
        if policy == "deduplicationSnapshotInterval" and not target.is_topic:
            ctx.obj.post(target.of(name, policy), None, **target.query(for_all))
        else:
            ctx.obj.delete(target.of(name, policy), **target.query(for_all))


def _add_retention(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command("set-retention")
    def set_retention(
        ctx: typer.Context, size: Size, time: Time, name: str = argument, for_all: Global = False
    ) -> None:
        """Set how much of acknowledged messages is kept. Both limits or none may be 0."""
        body = {
            "retentionTimeInMinutes": whole_minutes(time_s(time)),
            "retentionSizeInMB": whole_mib(size_bytes(size)),
        }
        ctx.obj.post(target.of(name, "retention"), body, **target.query(for_all))


def _add_ttl(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)
    option: Any = typer.Option(
        ..., *(("--ttl", "-t") if target.is_topic else ("--messageTTL", "-ttl")), help="120, 2m, 1h."
    )

    @app.command("set-message-ttl")
    def set_ttl(ctx: typer.Context, name: str = argument, ttl: str = option, for_all: Global = False) -> None:
        """Set after how long a message counts as acknowledged; 0 is never."""
        seconds, path = time_s(ttl), target.of(name, "messageTTL")
        if target.is_topic:
            ctx.obj.post(path, messageTTL=seconds, **target.query(for_all))
        else:
            ctx.obj.post(path, seconds, **target.query(for_all))


def _add_quotas(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command("set-backlog-quota")
    def set_quota(
        ctx: typer.Context,
        policy: Annotated[str, typer.Option("--policy", "-p", help=f"{', '.join(QUOTA_POLICIES)}.")],
        limit: Annotated[
            str, typer.Option("--limit", "-l", help="Size of a backlog: 10M, 16G; -1 is no limit.")
        ] = "-1",
        time: Annotated[
            str, typer.Option("--limitTime", "-lt", help="Age of a backlog: 3600, 1h; -1 is no limit.")
        ] = "-1",
        kind: QuotaType = DESTINATION_STORAGE,
        name: str = argument,
        for_all: Global = False,
    ) -> None:
        """Set what happens when a backlog gets too large or too old."""
        if policy not in QUOTA_POLICIES:
            raise typer.BadParameter(f"Invalid retention policy type '{policy}'. Valid options are: {QUOTA_POLICIES}")
        body = {"limitSize": size_bytes(limit), "limitTime": time_s(time), "policy": policy}
        kind = _quota_type(kind)
        ctx.obj.post(target.of(name, "backlogQuota"), body, backlogQuotaType=kind, **target.query(for_all))

    @app.command("get-backlog-quota", hidden=True)  # as `pulsar-admin topicPolicies` calls it
    @app.command("get-backlog-quotas")
    def get_quotas(ctx: typer.Context, name: str = argument, for_all: Global = False, applied: Applied = False) -> None:
        """Show the backlog quotas by their type."""
        show(ctx.obj.get(target.of(name, "backlogQuotaMap"), **target.query(for_all, applied)))

    @app.command("remove-backlog-quota")
    def remove_quota(
        ctx: typer.Context, name: str = argument, kind: QuotaType = DESTINATION_STORAGE, for_all: Global = False
    ) -> None:
        """Remove the backlog quota of a type."""
        path = target.of(name, "backlogQuota")
        ctx.obj.delete(path, backlogQuotaType=_quota_type(kind), **target.query(for_all))


def _quota_type(kind: str) -> str:
    if kind not in QUOTA_TYPES:
        raise typer.BadParameter(f"Invalid backlog quota type '{kind}'. Valid options are: {QUOTA_TYPES}")
    return kind


def _add_persistence(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command("set-persistence")
    def set_persistence(
        ctx: typer.Context,
        ensemble: Annotated[int, typer.Option("--bookkeeper-ensemble", "-e")] = 2,
        write_quorum: Annotated[int, typer.Option("--bookkeeper-write-quorum", "-w")] = 2,
        ack_quorum: Annotated[int, typer.Option("--bookkeeper-ack-quorum", "-a")] = 2,
        rate: Annotated[float, typer.Option("--ml-mark-delete-max-rate", "-r")] = 0.0,
        name: str = argument,
        for_all: Global = False,
    ) -> None:
        """Set how many bookies Apache Pulsar uses; this broker keeps the numbers and uses its one disk."""
        body = {
            "bookkeeperEnsemble": ensemble,
            "bookkeeperWriteQuorum": write_quorum,
            "bookkeeperAckQuorum": ack_quorum,
            "managedLedgerMaxMarkDeleteRate": rate,
        }
        ctx.obj.post(target.of(name, "persistence"), body, **target.query(for_all))


def _add_deduplication(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command("set-deduplication")
    def set_deduplication(
        ctx: typer.Context,
        name: str = argument,
        enable: Enable = False,
        disable: Disable = False,
        for_all: Global = False,
    ) -> None:
        """Turn de-duplication on or off."""
        ctx.obj.post(target.of(name, "deduplication"), switched(enable, disable), **target.query(for_all))

    @app.command("set-deduplication-snapshot-interval")
    def set_interval(
        ctx: typer.Context,
        interval: Annotated[int, typer.Option("--interval", "-i", help="Seconds.")],
        name: str = argument,
        for_all: Global = False,
    ) -> None:
        """Set how often Apache Pulsar stores sequence ids; this broker stores them with their messages."""
        ctx.obj.post(target.of(name, "deduplicationSnapshotInterval"), interval, **target.query(for_all))


def _add_compaction(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command("set-compaction-threshold")
    def set_threshold(
        ctx: typer.Context,
        threshold: Annotated[str, typer.Option("--threshold", "-t", help="Size: 100M; 0 is never.")],
        name: str = argument,
        for_all: Global = False,
    ) -> None:
        """Set how large a topic's uncompacted part gets before it is compacted by itself."""
        path, size = target.of(name, "compactionThreshold"), size_bytes(threshold)
        if target.is_topic:
            ctx.obj.post(path, size, **target.query(for_all))
        else:
            ctx.obj.put(path, size, **target.query(for_all))


def _add_inactive(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command("set-inactive-topic-policies")
    def set_inactive(
        ctx: typer.Context,
        duration: Annotated[str, typer.Option("--max-inactive-duration", "-t", help="60s, 1h.")],
        mode: Annotated[str, typer.Option("--delete-mode", "-m", help=f"{' or '.join(INACTIVE_MODES)}.")],
        name: str = argument,
        enable: Annotated[bool, typer.Option("--enable-delete-while-inactive", "-e")] = False,
        disable: Annotated[bool, typer.Option("--disable-delete-while-inactive", "-d")] = False,
        for_all: Global = False,
    ) -> None:
        """Set when a topic that nobody uses is deleted."""
        body = {
            "inactiveTopicDeleteMode": mode,
            "maxInactiveDurationSeconds": time_s(duration),
            "deleteWhileInactive": switched(enable, disable),
        }
        ctx.obj.post(target.of(name, "inactiveTopicPolicies"), body, **target.query(for_all))


def _add_delayed(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command("set-delayed-delivery")
    def set_delayed(
        ctx: typer.Context,
        name: str = argument,
        tick: Annotated[str, typer.Option("--time", "-t", help="Tick: 1s. Kept, and without effect.")] = "1s",
        longest: Annotated[str, typer.Option("--max-delay", "--maxDelay", help="1h; 0s is no limit.")] = "0s",
        enable: Annotated[bool, typer.Option("--enable", "-e")] = False,
        disable: Annotated[bool, typer.Option("--disable", "-d")] = False,
        for_all: Global = False,
    ) -> None:
        """Set whether messages wait for the time that their producers gave them."""
        body = {
            "active": switched(enable, disable),
            "tickTime": 1000 * time_s(tick),
            "maxDeliveryDelayInMillis": 1000 * time_s(longest),
        }
        ctx.obj.post(target.of(name, "delayedDelivery"), body, **target.query(for_all))
