"""The judge of the kill runs notices a transaction that is there in part, and acks that are lost or made up."""

from __future__ import annotations

import time

import pulsar
import pytest

from tests.fault.transaction_account import Account, Intent, Message, Visible
from tests.fault.transaction_load import message_id_of

A: Message = ("w", 1)
B: Message = ("w", 2)
C: Message = ("w", 3)
HERE: pulsar.MessageId = message_id_of((1, 0), -1)


def _account(*, is_committed: bool | None) -> Account:
    """One ended transaction with messages on two topics and acks on two subscriptions, and something beside it."""
    account = Account()
    intent = Intent((0, 1), 60_000, time.monotonic())
    intent.messages["t1"][A] = HERE
    intent.messages["t2"][B] = HERE
    intent.acks["s1"] = {1}
    intent.acks["s2"] = {1, 2}
    intent.end(is_committed=is_committed)
    account.intents.append(intent)
    account.inputs |= {"s1": {1, 2, 3}, "s2": {1, 2, 3}}
    account.plain.asked.add(("t1", C))
    account.plain.acked.add(("s1", 3))
    return account


COMMITTED = ({"t1": {A, C}, "t2": {B}}, {"s1": [2], "s2": [3]})
ABORTED = ({"t1": {C}, "t2": set[Message]()}, {"s1": [1, 2], "s2": [1, 2, 3]})


@pytest.mark.parametrize(
    ("is_committed", "shown"), [(True, COMMITTED), (False, ABORTED), (None, COMMITTED), (None, ABORTED)]
)
def test_whole_transactions_pass(
    is_committed: bool | None, shown: tuple[dict[str, set[Message]], dict[str, list[int]]]
) -> None:
    account = _account(is_committed=is_committed)
    account.judge(*shown)
    assert account.intents[0].is_committed is (shown is COMMITTED)


@pytest.mark.parametrize(
    ("is_committed", "visible", "left", "told"),
    [
        pytest.param(False, {"t1": {A, C}, "t2": ()}, ABORTED[1], "t1 shows", id="a part of an aborted one shows"),
        pytest.param(False, *COMMITTED, "t1 shows", id="an aborted one shows as a whole"),
        pytest.param(False, ABORTED[0], {"s1": [1, 2], "s2": [1, 3]}, "s2 lost", id="an aborted ack holds"),
        pytest.param(True, {"t1": {A, C}, "t2": ()}, COMMITTED[1], "t2 lacks", id="a part of a committed one is lost"),
        pytest.param(True, COMMITTED[0], {"s1": [2], "s2": [2, 3]}, "s2 has 2 again", id="a committed ack is lost"),
        pytest.param(None, {"t1": {A, C}, "t2": ()}, ABORTED[1], "t2 lacks", id="one topic without the other"),
        pytest.param(None, COMMITTED[0], ABORTED[1], "has 1 again", id="messages without acks"),
        pytest.param(None, ABORTED[0], COMMITTED[1], "t1 lacks", id="acks without messages"),
        pytest.param(None, ABORTED[0], {"s1": [1, 2], "s2": [3]}, "t1 lacks", id="one subscription without the other"),
        pytest.param(True, COMMITTED[0], {"s1": [2, 3], "s2": [3]}, "s1 has .3. again", id="a plain ack is lost"),
        pytest.param(
            True, COMMITTED[0], {"s1": [], "s2": [3]}, "s1 lost .2.", id="a message that nobody acked is lost"
        ),
        pytest.param(True, COMMITTED[0], {"s1": [2, 2], "s2": [3]}, "twice", id="a message comes twice"),
        pytest.param(True, {"t1": {A, C}, "t2": {B, C}}, COMMITTED[1], "nobody sent", id="a message that nobody sent"),
    ],
)
def test_what_is_there_in_part_is_noticed(
    is_committed: bool | None, visible: dict[str, set[Message]], left: dict[str, list[int]], told: str
) -> None:
    with pytest.raises(AssertionError, match=told):
        _account(is_committed=is_committed).judge(visible, left)


def test_an_ack_that_was_asked_for_may_hold_after_a_commit_only() -> None:
    for is_committed in (True, False):
        account = _account(is_committed=is_committed)
        account.intents[0].maybe_acks.add(("s1", 2))
        account.intents[0].maybe_messages.add(("t1", ("w", 4)))
        visible, left = COMMITTED if is_committed else ABORTED
        account.judge(visible, left)
        more = {**visible, "t1": {*visible["t1"], ("w", 4)}}, {**left, "s1": [each for each in left["s1"] if each != 2]}
        if is_committed:
            account.judge(*more)
        else:
            with pytest.raises(AssertionError, match="2 broken promises"):
                account.judge(*more)


def test_messages_of_committed_transactions_must_be_where_their_receipt_said() -> None:
    account, visible = _account(is_committed=True), Visible("t1")
    visible.promise(account.intents)
    assert visible.receipts == {"w": {1: HERE}}
    assert visible.receipts["w"][1] != message_id_of((1, 0), 0)
