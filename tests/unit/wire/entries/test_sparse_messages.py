"""MESSAGE frames of entries that are not next to each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.wire.entries.messages import message_frames

LOW, NEAR, FAR = (
    st.integers(0, 127),
    st.integers(120, 300) | st.integers(2**14 - 9, 2**14 + 9) | st.integers(2**21 - 9, 2**21 + 9),
    st.integers(0, 2**40),
)
IDS = (
    st.lists(LOW | NEAR | FAR, min_size=1, unique=True)
    | st.lists(NEAR | st.integers(128, 2**30), min_size=1, unique=True)
).map(sorted)


@given(IDS, st.booleans(), st.booleans(), st.booleans())
def test_each_frame_is_that_of_the_entry_alone(entry_ids: list[int], counted: bool, cut: bool, is_large: bool) -> None:
    # covers SUB-4
    sizes = [9_000 if index == 1 and is_large else 5 + index // 2 for index in range(len(entry_ids))]
    buffer = bytes(index % 251 for index in range(sum(sizes)))
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    starts = [end - size for size, end in zip(sizes, ends, strict=True)]
    counts = [index % 3 for index in range(len(sizes))] if counted else None
    sets = [None if index % 2 else 0b1011 for index in range(len(sizes))] if cut else None
    sparse = message_frames(7, 5, entry_ids[0], -1, buffer, starts, ends, counts, sets, None, entry_ids)
    alone = [
        piece
        for index, entry_id in enumerate(entry_ids)
        for piece in message_frames(
            7,
            5,
            entry_id,
            -1,
            buffer,
            starts[index : index + 1],
            ends[index : index + 1],
            None if counts is None else counts[index : index + 1],
            None if sets is None else sets[index : index + 1],
        )
    ]
    assert b"".join(sparse) == b"".join(alone)
