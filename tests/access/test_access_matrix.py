"""Every cell of the access matrix against our broker, compared with what was recorded on Apache Pulsar 4.0.8."""

from pathlib import Path
from typing import Final

import pytest

from spark_pulsar.admin.app import ROUTES
from spark_pulsar.admin.http.calls import Route, routes
from spark_pulsar.broker.broker import COMMANDS
from spark_pulsar.broker.security.commands import CHECKS
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.conftest import started

from .command_cells import COMMANDS as COMMAND_CELLS
from .command_cells import LET_IN, connection
from .matrix import Matrix, asked, saved
from .rest_cells import rest_cells
from .roles import ADMIN, CONFIGURATION, NAMESPACE, TOPIC, WITHOUT_CREDENTIALS, Rest, set_up

_SCHEMA_OF_NAMESPACE: Final = "is a bundle's path in Apache Pulsar, whose refusal names another operation"
DIFFERENCES: Final = {
    **dict.fromkeys(
        [
            f"DELETE /admin/v2/namespaces/{{tenant}}/{{namespace}}/{policy}"
            for policy in (
                "schemaCompatibilityStrategy",
                "schemaAutoUpdateCompatibilityStrategy",
                "isAllowAutoUpdateSchema",
                "schemaValidationEnforced",
            )
        ],
        _SCHEMA_OF_NAMESPACE,
    ),
    "DELETE /admin/v2/{domain}/{tenant}/{namespace}/{topic}/schemaValidationEnforced": "is 405 in Apache Pulsar",
    "GET /admin/v2/brokers/ready": "SEC-2: a probe has no credentials",
    "GET /admin/v2/brokers/version": "SEC-2: a probe has no credentials",
    "GET /admin/v2/broker-stats/disk": "is ours; for those who may see all topics",
    **dict.fromkeys(
        [
            "GET /admin/v2/namespaces/{tenant}/{namespace}/appliedPolicies",
            "GET /admin/v2/{domain}/{tenant}/{namespace}/{topic}/appliedPolicies",
        ],
        "is ours; for those who may read each of the policies",
    ),
    "GET /admin/namespaces/{cluster}/antiAffinity/{group}": "ADM-57: for administrators of the tenant",
    "GET /admin/v2/namespaces/{cluster}/antiAffinity/{group}": "ADM-57: for administrators of the tenant",
    **dict.fromkeys(
        [
            f"GET /admin/v3/transactions/{path}"
            for path in (
                "transactionBufferStats/{tenant}/{namespace}/{topic}",
                "transactionInBufferStats/{tenant}/{namespace}/{topic}/{most}/{least}",
                "pendingAckStats/{tenant}/{namespace}/{topic}/{subscription}",
                "transactionInPendingAckStats/{tenant}/{namespace}/{topic}/{subscription}/{most}/{least}",
                "positionStatsInPendingAck/{tenant}/{namespace}/{topic}/{subscription}/{ledger}/{entry}",
            )
        ],
        "TX-25: names of topics, and what happens on them, are for those who may see their statistics",
    ),
    "GET_SCHEMA": "SEC-61: schemas are read by those who may look the topic up",
    "GET_OR_CREATE_SCHEMA": "SEC-61: schemas are made by those who may publish",
}
"""Actions in which some role has another answer than on Apache Pulsar, with the reason."""
_UNCHECKED: Final = {
    *("CONNECT", "PING", "PONG", "AUTH_RESPONSE", "CLOSE_PRODUCER", "CLOSE_CONSUMER", "FLOW", "ACK"),
    *("REDELIVER_UNACKNOWLEDGED_MESSAGES", "WATCH_TOPIC_LIST_CLOSE", "END_TXN_ON_PARTITION", "END_TXN_ON_SUBSCRIPTION"),
}
"""Commands without a cell: they concern the connection, what an earlier command has opened, or are no client's."""

pytestmark = pytest.mark.ours_only("SEC-60")


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    directory: Path = tmp_path_factory.mktemp("access")
    with started("ours", directory, CONFIGURATION) as broker:
        return asked(broker.service_url, broker.admin_url)


def test_every_route_and_command_has_a_rule_and_cells() -> None:
    # covers SEC-60
    assert all(callable(route.rule) for _, methods in ROUTES for route in methods.values())
    recorded = saved()
    assert {cell.name for cell in rest_cells()} <= set(recorded), "python -m tests.access.recording"
    names = {BaseCommand.Type.Name(kind) for kind in COMMANDS}
    assert {BaseCommand.Type.Name(kind) for kind in CHECKS} == names
    assert names - _UNCHECKED <= set(COMMAND_CELLS)


def test_a_route_without_a_rule_is_noticed() -> None:
    # covers SEC-60
    handler = ROUTES[0][1]["GET"].handler
    with pytest.raises(ValueError, match="not enough values"):
        routes("admin/v2", ("GET /new", handler))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="rule"):
        Route("GET", "admin/v2/new", handler=handler)  # type: ignore[call-arg]


def test_every_cell_is_as_on_apache_pulsar_but_for_the_listed_differences(matrix: Matrix) -> None:
    # covers SEC-60, SEC-61, AU-7, AU-8, AU-9
    recorded = saved()
    assert set(recorded) == set(matrix)
    different: dict[str, list[str]] = {}
    for action, by_role in matrix.items():
        for role, answer in by_role.items():
            if not _is_as(role, answer, recorded[action][role]):
                said = f"{action} as {role}: {answer}, on Apache Pulsar {recorded[action][role]}"
                different.setdefault(_name(action), []).append(said)
    assert not {name: told for name, told in different.items() if name not in DIFFERENCES}
    assert set(different) == set(DIFFERENCES)


def test_nobody_without_rights_is_let_in_where_apache_pulsar_refuses(matrix: Matrix) -> None:
    # covers SEC-60
    recorded = saved()
    opened = {
        f"{action} as {role}"
        for action, by_role in matrix.items()
        for role, answer in by_role.items()
        if answer == LET_IN != recorded[action][role] and role != WITHOUT_CREDENTIALS
    }
    assert not opened


def _name(action: str) -> str:
    """The action without its resource, for commands."""
    return action if " /" in action else action.rpartition(" ")[0]


def _is_as(role: str, ours: str, theirs: str) -> bool:
    """Tells whether two answers are the same; that to a request without credentials has no fixed text."""
    return ours[:3] == theirs[:3] if role == WITHOUT_CREDENTIALS else ours == theirs


def test_an_open_transaction_is_told_to_its_owner(tmp_path: Path) -> None:
    # covers TX-25, TX-22, SEC-60
    with started("ours", tmp_path, CONFIGURATION) as broker:
        rest, raw = Rest(broker.admin_url), connection(broker.service_url, "producer")
        opened = raw.request("NEW_TXN", tc_id=0, txn_ttl_millis=600_000)
        least = opened.fields.get("txnid_least_bits", 0)
        path = f"admin/v3/transactions/transactionMetadata/0/{least}"
        answers = {role: rest.call(role, "GET", path) for role in ("producer", ADMIN, "consumer", "manager")}
        statuses = {role: status for role, (status, _) in answers.items()}
        assert statuses == {"producer": 200, ADMIN: 200, "consumer": 401, "manager": 401}
        assert answers["consumer"][1] == "This operation requires super-user access"
        raw.request("END_TXN", txnid_most_bits=0, txnid_least_bits=least, txn_action="ABORT")
        assert {rest.call(role, "GET", path)[0] for role in answers} == {404}, "what has ended is no secret"
        for text in ("9" * 5_000, "x", "-1"):
            assert rest.call("consumer", "GET", f"admin/v3/transactions/transactionMetadata/0/{text}")[0] == 404
        raw.close()
        rest.close()


def test_permissions_hold_after_a_crash(tmp_path: Path) -> None:
    # covers AU-9
    with started("ours", tmp_path, CONFIGURATION) as broker:
        rest = Rest(broker.admin_url)
        set_up(rest)
        paths = (f"admin/v2/namespaces/{NAMESPACE}", f"admin/v2/persistent/{NAMESPACE}/{TOPIC}")
        before = [rest.call(ADMIN, "GET", f"{path}/permissions") for path in paths]
        broker.kill()
        broker.restart()
        again = Rest(broker.admin_url)
        assert [again.call(ADMIN, "GET", f"{path}/permissions") for path in paths] == before
        raw = connection(broker.service_url, "consumer")
        topic = f"persistent://{NAMESPACE}/{TOPIC}"
        assert raw.request("PRODUCER", topic=topic, producer_id=1)["error"] == "AuthorizationError"
        joined = raw.request("SUBSCRIBE", topic=topic, subscription="s", subType="Shared", consumer_id=1)
        assert joined.type == "SUCCESS"
        for each in (rest, again, raw):
            each.close()
