"""Positions and message ids: order, text, the wire's unsigned numbers. Covers ML-4."""

import pulsar
import pytest

from spark_pulsar.model.positions.ids import (
    EARLIEST,
    EARLIEST_ID,
    LATEST,
    LATEST_ID,
    InvalidMessageId,
    MessageId,
    Position,
)


def test_constants() -> None:
    # covers ML-4
    assert EARLIEST == (-1, -1)
    assert LATEST == (2**63 - 1, 2**63 - 1)
    assert str(EARLIEST_ID) == "-1:-1:-1:-1"
    assert EARLIEST < Position(0, 0) < Position(0, 1) < Position(1, 0) < LATEST
    assert EARLIEST_ID.position == EARLIEST
    assert LATEST_ID.position == LATEST


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7:3", MessageId(7, 3)),
        ("7:3:2", MessageId(7, 3, 2)),
        ("7:3:-1:5", MessageId(7, 3, -1, 5)),
        ("(7,3,-1,5)", MessageId(7, 3, -1, 5)),
        ("(7, 3, 2, -1)", MessageId(7, 3, 2)),
        ('{"ledgerId": 7, "entryId": 3, "partitionIndex": -1}', MessageId(7, 3)),
        ('{"ledgerId": 7, "entryId": 3, "partitionIndex": 2, "batchIndex": 5}', MessageId(7, 3, 2, 5)),
        ("-1:-1:-1:-1", EARLIEST_ID),
        ("9223372036854775807:9223372036854775807", LATEST_ID),
    ],
)
def test_parse(text: str, expected: MessageId) -> None:
    assert MessageId.parse(text) == expected
    assert MessageId.parse(str(expected)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "7",
            "7:",
            ":",
            "7:3:1:1:1",
            "a:b",
            "7:3:x",
            "--1:0",
            "-2:0",
            "7:9223372036854775808",
            "7:+3",
            "7: 3",
            "٣:1",
        ),
        *("(7:3)", "(7)", "(7,3", "{", "{}", '{"ledgerId": "7", "entryId": 3}', '{"ledgerId": true, "entryId": 3}'),
        "1" * 5000 + ":1",
    ],
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(InvalidMessageId):
        MessageId.parse(text)


@pytest.mark.parametrize("compare", ["__lt__", "__le__", "__gt__", "__ge__"])
def test_no_order_with_other_tuples(compare: str) -> None:
    assert getattr(MessageId(1, 0), compare)((1, 0)) is NotImplemented


def test_next_in_ledger() -> None:
    assert Position(4, 7).next_in_ledger == (4, 8)
    assert str(Position(4, 7)) == "4:7"


def test_an_id_of_the_official_client() -> None:
    official = pulsar.MessageId(2, 7, 3, 5)
    assert MessageId.of_client(official) == MessageId.parse(str(official)) == MessageId(7, 3, 2, 5)
