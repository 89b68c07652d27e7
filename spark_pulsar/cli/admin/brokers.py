"""`spark-pulsar admin brokers`."""

from typing import Final

from spark_pulsar.cli.admin.command import Command

_BROKERS: Final = "/admin/v2/brokers"
COMMANDS: Final = (
    Command(
        "brokers list", "GET", f"{_BROKERS}/{{cluster}}", "List the brokers of a cluster: HOST:PORT of their admin API."
    ),
    Command("brokers leader-broker", "GET", f"{_BROKERS}/leaderBroker", "Show the broker that leads the others."),
    Command("brokers healthcheck", "GET", f"{_BROKERS}/health", "Print ok when the broker serves."),
    Command(
        "brokers backlog-quota-check",
        "GET",
        f"{_BROKERS}/backlog-quota-check",
        "Look at all backlog quotas now; the broker does so by itself when one may be reached.",
        answer=lambda _: "ok",
    ),
    Command(
        "brokers version", "GET", f"{_BROKERS}/version", "Print the version of Apache Pulsar that the broker speaks."
    ),
)
