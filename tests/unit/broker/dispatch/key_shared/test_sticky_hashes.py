"""Sticky hashes that a Key_Shared subscription remembers."""

from spark_pulsar.broker.dispatch.key_shared.sticky_hashes import StickyHashBook


def test_what_was_noted_is_known_whatever_the_order() -> None:
    # covers KS-14
    book = StickyHashBook()
    book.note(1, 10, [5, 6])
    book.note(1, 14, [8])
    book.note(1, 8, [3])
    book.note(2, 0, [65_535])
    assert book.of(1, 7, 16) == [0, 3, 0, 5, 6, 0, 0, 8, 0]
    assert book.of(1, 10, 12) == [5, 6]
    assert book.of(2, 0, 1) == [65_535]
    assert book.of(3, 0, 2) == [0, 0]
    assert book.of(1, 2, 7) == [0] * 5
    assert book.of(1, 14, 17) == [8, 0, 0]
    assert book.of(1, 20, 22) == [0, 0]
    assert book.of_each(1, [8, 10, 14]) == [3, 5, 8]
    assert book.of_each(1, [2, 7, 8, 11, 30]) == [0, 0, 3, 6, 0]
    assert book.of_each(3, [0, 2]) == [0, 0]


def test_the_past_is_forgotten() -> None:
    book = StickyHashBook()
    book.note(1, 0, [1])
    book.note(2, 0, [2] * 100_000)
    book.remove_before(2, 10)
    assert (book.of(1, 0, 1), book.of(2, 0, 1)) == ([0], [2])
    book.remove_before(2, 70_000)
    assert book.of(2, 69_999, 70_001) == [0, 2]
    book.clear()
    assert book.of(2, 70_000, 70_001) == [0]
