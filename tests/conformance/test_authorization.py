"""Permissions of roles on both brokers: official client, raw frames, REST and commands."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pulsar
import pytest
from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from tests.access.command_cells import connection
from tests.access.roles import ADMIN, CONFIGURATION, TOKENS, Rest, token
from tests.brokers import Broker
from tests.conftest import started
from tests.raw import Frame, RawConnection

_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
_numbers = itertools.count()
TENANT = "admin/v2/tenants/team"
TEAM = {"adminRoles": ["lead"], "allowedClusters": ["standalone"]}


class Team:
    """A namespace of a tenant with the administrator `lead`, and calls as any role."""

    def __init__(self, broker: Broker, rest: Rest) -> None:
        self.broker = broker
        self.rest = rest
        self.namespace = f"team/ns-{next(_numbers)}"
        self.path = f"admin/v2/namespaces/{self.namespace}"
        self.topic = f"persistent://{self.namespace}/t"
        self.topic_path = f"admin/v2/persistent/{self.namespace}/t"
        self.opened: list[RawConnection] = []
        self.must("PUT", self.path, {})
        self.must("PUT", self.topic_path)

    def must(self, method: str, path: str, body: object = None) -> None:
        """A call of the super user that succeeds."""
        self.rest.must(method, path, body)

    def grant(self, role: str, *actions: str) -> None:
        """Grants a role actions in the namespace."""
        self.must("POST", f"{self.path}/permissions/{role}", list(actions))

    def revoke(self, role: str) -> None:
        """Takes them away."""
        self.must("DELETE", f"{self.path}/permissions/{role}")

    def raw(self, role: str, **fields: object) -> RawConnection:
        """A connection of a role."""
        self.opened.append(connection(self.broker.service_url, role, **fields))
        return self.opened[-1]

    def produce(self, raw: RawConnection) -> Frame:
        """The answer to PRODUCER."""
        return raw.request("PRODUCER", topic=self.topic, producer_id=1)

    def subscribe(self, raw: RawConnection, subscription: str = "s") -> Frame:
        """The answer to SUBSCRIBE."""
        number = next(_numbers)
        return raw.request(
            "SUBSCRIBE", topic=self.topic, subscription=subscription, subType="Shared", consumer_id=number
        )

    def client(self, role: str) -> pulsar.Client:
        """An official client of a role."""
        return self.broker.client(authentication=pulsar.AuthenticationToken(TOKENS[role]))


for _role in ("lead", "app", "app-1", "proxy", "front"):
    TOKENS.setdefault(_role, token(_role))


@pytest.fixture(scope="module")
def secured(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with authorization."""
    conf = {
        **CONFIGURATION,
        "proxyRoles": "proxy",
        "authorizationAllowWildcardsMatching": "true",
        "brokerClientAuthenticationPlugin": _PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{TOKENS[ADMIN]}",
    }
    headers = {"Authorization": f"Bearer {TOKENS[ADMIN]}"}
    with started(broker_kind, tmp_path_factory.mktemp("secured"), conf, headers) as broker:
        yield broker
        broker.close_since(0)


@pytest.fixture
def team(secured: Broker) -> Iterator[Team]:
    rest = Rest(secured.admin_url)
    rest.must("PUT", TENANT, TEAM)
    made = Team(secured, rest)
    yield made
    for each in made.opened:
        each.close()
    rest.close()


def test_an_official_client_does_what_its_role_may(team: Team) -> None:
    # covers AU-7, AU-9
    team.grant("producer", "produce")
    team.grant("consumer", "consume")
    consumer = team.client("consumer").subscribe(team.topic, "s")
    team.client("producer").create_producer(team.topic).send(b"1")
    message = consumer.receive(20_000)
    assert message.data() == b"1"
    for role in ("producer", "nobody"):
        with pytest.raises(pulsar.AuthorizationError):
            team.client(role).subscribe(team.topic, "s2")
    for role in ("consumer", "nobody"):
        with pytest.raises(pulsar.AuthorizationError):
            team.client(role).create_producer(team.topic)


def test_why_names_the_roles_that_may(team: Team) -> None:
    # covers WHY-7
    team.grant("producer", "produce")
    team.client("producer").create_producer(team.topic).send(b"1")
    asked = ["why", team.topic, "--admin-url", team.broker.admin_url, "--auth-plugin", "token", "-o", "json"]

    def findings(role: str, *words: str) -> list[dict[str, str]]:
        done = CliRunner().invoke(app, [*asked, "--auth-params", f"token:{TOKENS[role]}", *words])
        assert done.stderr == ""
        values: list[dict[str, str]] = json.loads(done.stdout)
        return values

    first = findings(ADMIN, "--role", "consumer")[0]
    assert first["cause"] == "role"
    assert first["sentence"].startswith(
        "No grant of the topic or its namespace allows the role consumer to consume or "
    )
    assert "grant-permissions --role consumer --actions consume,produce" in first["advice"]
    granted = [finding["sentence"] for finding in findings(ADMIN) if finding["cause"] == "role"]
    assert len(granted) == 1
    assert granted[0].startswith("Authorization is on: consume is granted to no role, produce to producer")
    (unseen,) = findings("nobody")
    assert (unseen["cause"], unseen["state"]) == ("not-seen", "cause")
    assert unseen["sentence"].startswith("Your role may not see the statistics of ")


def test_administrators_manage_their_tenant_alone(team: Team) -> None:
    # covers AU-8
    assert team.rest.call("lead", "PUT", f"admin/v2/namespaces/team/{next(_numbers)}", {})[0] == 204
    assert team.rest.call("lead", "POST", f"{team.path}/permissions/app", ["produce"])[0] == 204
    assert team.produce(team.raw("lead")).type == "PRODUCER_SUCCESS"
    status, text = team.rest.call("lead", "PUT", "admin/v2/tenants/another", TEAM)
    assert (status, text.partition(" for ")[0]) == (401, "Unauthorized to validateBothTenantOperationAndSuperUser")
    status, text = team.rest.call("lead", "GET", "admin/v2/namespaces/public/default")
    assert (status, text) == (
        403,
        "Unauthorized to validateNamespacePolicyOperation for operation [READ] on namespace [public/default] "
        "on policy [ALL]",
    )
    assert team.rest.call("lead", "GET", "admin/v2/namespaces/missing/ns")[:2] == (404, "Tenant does not exist")


def test_what_lost_its_permission_is_closed(team: Team) -> None:
    # covers AU-9, SEC-65
    team.grant("app", "produce", "consume")
    raw = team.raw("app")
    assert team.produce(raw).type == "PRODUCER_SUCCESS"
    assert team.subscribe(raw).type == "SUCCESS"
    team.grant("app", "consume")
    assert raw.expect("CLOSE_PRODUCER")["producer_id"] == 1
    assert team.produce(raw)["message"] == "Client is not authorized to Produce"
    team.must("POST", f"{team.topic_path}/permissions/app", ["produce"])
    assert team.produce(raw).type == "PRODUCER_SUCCESS"
    team.revoke("app")
    raw.expect("CLOSE_CONSUMER")
    assert team.subscribe(raw)["message"] == "Client is not authorized to subscribe"
    team.must("DELETE", f"{team.topic_path}/permissions/app")
    raw.expect("CLOSE_PRODUCER")


def test_permissions_with_several_topics_are_granted_and_revoked_together(team: Team) -> None:
    # covers AU-9
    first, second = f"{team.topic}-1", f"{team.topic}-2"
    for name in ("t-1", "t-2"):
        team.must("PUT", f"admin/v2/persistent/{team.namespace}/{name}")

    def ask(verb: str, *wishes: tuple[str, str], role: str = "lead") -> tuple[int, str]:
        body = [
            {"topic": topic, "role": each} | ({"actions": ["produce"]} if verb == "grant" else {})
            for topic, each in wishes
        ]
        return team.rest.call(role, "POST", f"admin/v2/namespaces/{verb}PermissionsOnTopics", body)

    def may_produce(topic: str) -> bool:
        answer = raw.request("PRODUCER", topic=topic, producer_id=next(_numbers))
        return answer.type == "PRODUCER_SUCCESS"

    raw = team.raw("app")
    assert ask("grant", (first, "app"), role="app")[0] == 401
    assert ask("grant", (first, "app"), (f"{team.topic}-none", "app")) == (404, f"Topic {team.topic}-none not found")
    assert ask("grant", (first, "app"), ("persistent://public/default/t", "app"))[0] == 400
    assert ask("grant") == (400, "The namespace should be the same")
    assert not may_produce(first)
    assert ask("grant", (first, "app"), (second, "app"), (second, "front"))[0] == 204
    assert may_produce(first)
    assert may_produce(second)
    assert ask("revoke", (second, "app"), (f"{team.topic}-none", "app"))[0] == 404
    assert ask("revoke", (first, "app"), (second, "app"), (second, "unknown"))[0] == 204
    assert {raw.expect("CLOSE_PRODUCER").type for _ in range(2)} == {"CLOSE_PRODUCER"}
    assert not may_produce(second)
    shown = team.rest.call(ADMIN, "GET", f"admin/v2/persistent/{team.namespace}/t-2/permissions")
    assert shown[0] == 200
    assert "front" in shown[1]


def test_a_producer_that_makes_a_subscription_must_be_allowed_to(team: Team) -> None:
    # covers AU-9
    team.grant("producer", "produce")
    team.grant("app", "produce", "consume")
    wish = {"topic": team.topic, "producer_id": 5, "initial_subscription_name": "first"}
    refused = team.raw("producer").request("PRODUCER", **wish)
    assert (refused["error"], refused["message"]) == ("AuthorizationError", "Client is not authorized to Produce")
    assert team.raw("app").request("PRODUCER", **wish).type == "PRODUCER_SUCCESS"


def test_subscriptions_for_some_roles_and_named_after_them(team: Team) -> None:
    # covers AU-9
    for role in ("app", "consumer"):
        team.grant(role, "consume")
    locked = f"{team.path}/permissions/subscription/locked"
    team.must("POST", locked, ["consumer"])
    app_, consumer = team.raw("app"), team.raw("consumer")
    assert team.subscribe(app_, "locked")["error"] == "AuthorizationError"
    assert team.subscribe(consumer, "locked").type == "SUCCESS"
    assert team.subscribe(app_, "open").type == "SUCCESS"
    team.must("POST", f"{team.path}/subscriptionAuthMode", "Prefix")
    refused = team.subscribe(app_, "mine")
    assert refused["error"] == "AuthorizationError"
    assert "needs to be prefixed by the authentication role, like app-xxxx" in refused["message"]
    assert team.subscribe(app_, "app-1").type == "SUCCESS"
    assert team.subscribe(team.raw("lead"), "mine").type == "SUCCESS"


def test_both_a_proxy_and_its_client_must_be_allowed(team: Team) -> None:
    # covers AU-10
    team.grant("app", "produce")
    assert team.produce(team.raw("proxy", original_principal="app"))["error"] == "AuthorizationError"
    team.grant("proxy", "produce")
    assert team.produce(team.raw("proxy", original_principal="app")).type == "PRODUCER_SUCCESS"
    assert team.produce(team.raw("proxy", original_principal="nobody"))["error"] == "AuthorizationError"


def test_a_proxy_names_its_client_over_http(team: Team) -> None:
    # covers AU-10
    for role in ("proxy", "app"):
        team.grant(role, "produce")
    allowed = [("proxy", "app"), ("app", ""), ("app", "app"), (ADMIN, ""), (ADMIN, ADMIN)]
    refused = [("proxy", ""), ("proxy", "proxy"), ("proxy", "nobody"), ("app", "proxy"), ("app", ADMIN), (ADMIN, "app")]
    for roles in (allowed, refused):
        wanted = 200 if roles is allowed else 401
        for role, original in roles:
            assert team.rest.call(role, "GET", f"{team.topic_path}/stats", None, original)[0] == wanted, (
                role,
                original,
            )
    status, text = team.rest.call("proxy", "GET", "admin/v2/tenants", None, "app")
    assert (status, "for originalPrincipal [app] and clientAppId [proxy]" in text) == (401, True)


def test_roles_with_a_star(team: Team) -> None:
    # covers AU-9
    team.grant("app-*", "consume")
    assert team.subscribe(team.raw("app-1")).type == "SUCCESS"
    assert team.subscribe(team.raw("app"))["error"] == "AuthorizationError"
    team.revoke("app-*")
    team.grant("*-1", "produce")
    assert team.produce(team.raw("app-1")).type == "PRODUCER_SUCCESS"


def test_commands_grant_show_and_revoke(team: Team) -> None:
    # covers AU-9
    def admin(words: str) -> str:
        options = ["admin", "--admin-url", team.broker.admin_url, "--auth-plugin", _PLUGIN]
        done = CliRunner().invoke(app, [*options, "--auth-params", f"token:{TOKENS[ADMIN]}", *words.split()])
        assert (done.exit_code, done.stderr) == (0, ""), (words, done.stderr)
        return done.stdout

    name, topic = team.namespace, team.topic
    admin(f"namespaces grant-permission {name} --role app --actions produce,consume")
    admin(f"topics grant-permissions {topic} --role front --actions consume")
    shown = json.loads(admin(f"namespaces permissions {name}"))
    assert {role: set(actions) for role, actions in shown.items()} == {"app": {"produce", "consume"}}
    shown = json.loads(admin(f"topics permissions {topic}"))
    assert {role: set(each) for role, each in shown.items()} == {"app": {"produce", "consume"}, "front": {"consume"}}
    admin(f"namespaces revoke-permission {name} --role app")
    assert json.loads(admin(f"namespaces permissions {name}")) == {}
    admin(f"topics revoke-permissions {topic} --role front")
    assert json.loads(admin(f"topics permissions {topic}")) == {}
    admin(f"namespaces grant-subscription-permission {name} --subscription s --roles a,b")
    admin(f"namespaces revoke-subscription-permission {name} --subscription s --role a")
    assert json.loads(admin(f"namespaces subscription-permission {name}")) == {"s": ["b"]}
    admin(f"namespaces set-subscription-auth-mode {name} -m Prefix")
    assert "Prefix" in admin(f"namespaces get-subscription-auth-mode {name}")


@pytest.mark.ours_only("SEC-66")
def test_unknown_actions_and_modes_are_refused(team: Team) -> None:
    # covers SEC-66
    for end, body in (("permissions/app", ["nonsense"]), ("subscriptionAuthMode", "nonsense")):
        assert team.rest.call(ADMIN, "POST", f"{team.path}/{end}", body)[0] == 400
    assert team.rest.call(ADMIN, "DELETE", f"{team.path}/permissions/unknown/app")[0] == 404


def test_a_role_uses_and_ends_its_own_transactions(team: Team) -> None:
    # covers TX-25
    team.grant("app", "produce", "consume")
    team.grant("app-1", "produce", "consume")
    owner, other, admin = team.raw("app"), team.raw("app-1"), team.raw(ADMIN)
    admin.request("LOOKUP", topic="persistent://pulsar/system/transaction_coordinator_assign-partition-0")
    for each in (admin, owner, other):
        assert "error" not in each.request("TC_CLIENT_CONNECT_REQUEST", tc_id=0).fields
    opened = owner.request("NEW_TXN", txn_ttl_millis=60_000, tc_id=0)
    ids = {"txnid_most_bits": 0, "txnid_least_bits": opened.fields.get("txnid_least_bits", 0)}
    added = {"subscription": [{"topic": team.topic, "subscription": "s"}]}
    reason = f"Client (app-1) is neither the owner of the transaction (0,{ids['txnid_least_bits']}) nor a super user"
    for answer in (
        other.request("ADD_PARTITION_TO_TXN", partitions=[team.topic], **ids),
        other.request("ADD_SUBSCRIPTION_TO_TXN", **added, **ids),
        other.request("END_TXN", txn_action="COMMIT", **ids),
    ):
        assert (answer["error"], answer["message"]) == ("TransactionNotFound", reason)
    for each in (owner, admin):
        assert "error" not in each.request("ADD_PARTITION_TO_TXN", partitions=[team.topic], **ids).fields
        assert "error" not in each.request("ADD_SUBSCRIPTION_TO_TXN", **added, **ids).fields
    assert "error" not in owner.request("END_TXN", txn_action="COMMIT", **ids).fields
    mine = owner.request("NEW_TXN", txn_ttl_millis=60_000, tc_id=0).fields.get("txnid_least_bits", 0)
    ended = admin.request("END_TXN", txn_action="ABORT", txnid_most_bits=0, txnid_least_bits=mine)
    assert "error" not in ended.fields
    path = f"admin/v3/transactions/abortTransaction/0/{mine}"
    assert team.rest.call("app", "POST", path)[0] == 401


def test_a_transaction_behind_a_proxy_is_its_clients(team: Team) -> None:
    # covers TX-25, AU-10
    for role in ("proxy", "app", "app-1"):
        team.grant(role, "produce", "consume")
    alice, bob = (team.raw("proxy", original_principal=role) for role in ("app", "app-1"))
    directly, admin_behind = team.raw("app"), team.raw("proxy", original_principal=ADMIN)
    team.raw(ADMIN).request("LOOKUP", topic="persistent://pulsar/system/transaction_coordinator_assign-partition-0")
    for each in (alice, bob, directly, admin_behind):
        assert "error" not in each.request("TC_CLIENT_CONNECT_REQUEST", tc_id=0).fields
    opened = alice.request("NEW_TXN", txn_ttl_millis=60_000, tc_id=0)
    ids = {"txnid_most_bits": 0, "txnid_least_bits": opened.fields.get("txnid_least_bits", 0)}
    added = {"subscription": [{"topic": team.topic, "subscription": "s"}]}
    for client, role in ((bob, "app-1"), (admin_behind, ADMIN)):
        for answer in (
            client.request("ADD_PARTITION_TO_TXN", partitions=[team.topic], **ids),
            client.request("ADD_SUBSCRIPTION_TO_TXN", **added, **ids),
            client.request("END_TXN", txn_action="ABORT", **ids),
        ):
            assert (answer["error"], f"Client ({role}) is neither" in answer["message"]) == (
                "TransactionNotFound",
                True,
            )
    assert "error" not in alice.request("ADD_PARTITION_TO_TXN", partitions=[team.topic], **ids).fields
    assert "error" not in directly.request("ADD_SUBSCRIPTION_TO_TXN", **added, **ids).fields
    assert "error" not in alice.request("END_TXN", txn_action="COMMIT", **ids).fields
