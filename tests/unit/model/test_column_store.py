"""Objects read and set their own numbers wherever these stand."""

import random

from spark_pulsar.model.column_store import ColumnStore, Counter, HasCounters, bounds_of, column_of


class Pair(HasCounters):
    __slots__ = ()

    left = Counter(0)
    right = Counter(1)


def test_numbers_move_with_their_owner() -> None:
    table: ColumnStore[Pair] = ColumnStore(2)
    first, second = Pair((1, 2)), Pair((3, 4))
    for owner in (first, second):
        table.put(table.claim(), owner)
    first.left = 10
    assert table.matrix().tolist() == [[10, 2], [3, 4]]
    table.matrix()[:, 1] += 5
    assert [(owner.left, owner.right) for owner in (first, second)] == [(10, 7), (3, 9)]
    table.detach(0)
    table.detach(0)
    table.matrix()[:, 1] += 5
    assert [(owner.left, owner.right) for owner in (first, second)] == [(10, 7), (3, 14)]
    assert table.matrix().tolist() == [[0, 5], [3, 14]]
    assert table.owners == [None, second]


def test_who_takes_a_row_puts_the_other_out() -> None:
    table: ColumnStore[Pair] = ColumnStore(2)
    first, second = Pair((1, 2)), Pair((3, 4))
    table.put(3, first)
    table.put(3, second)
    second.left = 8
    assert (first.left, first.right) == (1, 2)
    assert table.matrix().tolist() == [[0, 0], [0, 0], [0, 0], [8, 4]]


def test_random_histories() -> None:
    rng = random.Random(7)
    table: ColumnStore[Pair] = ColumnStore(2)
    rows: dict[int, tuple[Pair, list[int]]] = {}
    for step in range(3_000):
        row = rng.choice(list(rows)) if rows else -1
        match rng.randrange(4):
            case 0:
                row = table.claim()
                assert row not in rows
                rows[row] = Pair((step, -step)), [step, -step]
                table.put(row, rows[row][0])
            case 1 if rows:
                owner, numbers = rows.pop(row)
                table.release(row)
                owner.left += 0
                assert [owner.left, owner.right] == numbers
            case 2 if rows:
                rows[row][0].right = rows[row][1][1] = step
            case _:
                table.matrix()[list(rows), 0] += 1
                for _, numbers in rows.values():
                    numbers[0] += 1
    for row, (owner, numbers) in rows.items():
        assert [owner.left, owner.right] == numbers == table.matrix()[row].tolist()


def test_numbers_may_be_as_large_as_64_bits_are() -> None:
    owner = Pair((-(2**63), 2**63 - 1))
    table: ColumnStore[Pair] = ColumnStore(2)
    table.put(0, owner)
    assert (owner.left, owner.right) == (-(2**63), 2**63 - 1)
    owner.right += 1
    assert owner.right == 2**63 - 1


def test_stretches() -> None:
    table: ColumnStore[Pair] = ColumnStore(1)
    for value in (4, 4, 7, 9, 9, 9):
        table.put(table.claim(), Pair((value,)))
    column = table.matrix()[:, 0]
    assert bounds_of(column) == [0, 2, 3, 6]
    assert bounds_of(column[:1]) == [0, 1]
    assert column_of(column).tolist() == [4, 4, 7, 9, 9, 9]
