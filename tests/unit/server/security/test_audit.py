"""Lines of the audit log."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.broker.turn.effects import WriteAudit
from spark_pulsar.server.security.audit import MAX_TEXT_LENGTH, write_audit


def line(entry: WriteAudit) -> tuple[int, str]:
    """Level and text of the line for an entry."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    log = logging.getLogger("spark_pulsar.audit")
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        write_audit(entry)
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    (record,) = records
    return record.levelno, record.getMessage()


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            WriteAudit("/10.0.0.1:1000", "alice", None, "authenticate", "token", True),
            'allowed client="/10.0.0.1:1000" role="alice" action="authenticate" resource="token"',
        ),
        (
            WriteAudit("/10.0.0.1:1000", None, None, "authenticate", "basic", False, "unknown user"),
            'refused client="/10.0.0.1:1000" action="authenticate" resource="basic" reason="unknown user"',
        ),
        (
            WriteAudit("/10.0.0.1:1000", "proxy", "bob", "produce", "persistent://a/b/c", False, "no"),
            'refused client="/10.0.0.1:1000" role="proxy" original="bob" action="produce" '
            'resource="persistent://a/b/c" reason="no"',
        ),
    ],
)
def test_a_line_says_who_from_where_what_and_whether(entry: WriteAudit, text: str) -> None:
    # covers SEC-20
    assert line(entry) == (logging.INFO if entry.is_allowed else logging.WARNING, text)


@given(role=st.text(), action=st.text(), resource=st.text(), reason=st.text())
def test_no_text_can_forge_a_line_nor_fill_the_log(role: str, action: str, resource: str, reason: str) -> None:
    # covers SEC-20
    _, text = line(WriteAudit("/10.0.0.1:1000", role, role, action, resource, False, reason))
    assert text.isascii()
    assert text.isprintable()
    assert text.startswith('refused client="/10.0.0.1:1000" role="')
    assert len(text) < 6 * 12 * (MAX_TEXT_LENGTH + 20)


def test_control_characters_and_quotes_are_escaped() -> None:
    # covers SEC-20
    role = 'a" action="produce"\nallowed \x7f\u202e\ud800'
    _, text = line(WriteAudit("/10.0.0.1:1000", role, None, "x" * 10_000, "t", False))
    escaped = '"a\\" action=\\"produce\\"\\nallowed \\u007f\\u202e\\ud800"'
    assert escaped in text
    assert len(text) < MAX_TEXT_LENGTH + 200
