"""Lines of the audit log that rules write."""

from spark_pulsar.broker.security.auditing import audit
from spark_pulsar.broker.turn.effects import WriteAudit
from spark_pulsar.model.principals import Principal
from tests.unit.broker.world import World


def test_a_line_says_who_from_where_what_and_whether() -> None:
    # covers SEC-20
    world = World()
    client = world.connect()
    session = world.core.sessions[client.session_id]
    session.principal = Principal("proxy", "alice")
    world.ask(lambda core: audit(core, session, "produce", "persistent://a/b/c", is_allowed=False, reason="no"))
    refused = WriteAudit("/10.0.0.1:1000", "proxy", "alice", "produce", "persistent://a/b/c", False, "no")
    assert world.audits == [refused]


def test_the_key_turns_it_off() -> None:
    # covers SEC-20
    world = World(audit_log=False)
    session = world.core.sessions[world.connect().session_id]
    world.ask(lambda core: audit(core, session, "produce", "t", is_allowed=True))
    assert not world.audits
