"""MESSAGE frames, against what protobuf writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.entries.messages import message_frames
from spark_pulsar.wire.protocol import frames
from tests import entry_commands


def test_many_messages_over_all_lengths_of_entry_ids() -> None:
    buffer, starts, ends = b"entry", [0] * 20_000, [5] * 20_000
    written = b"".join(message_frames(1, 7, 0, -1, buffer, starts, ends))
    found = frames.FrameSplitter().feed(written)
    ids = [frames.parse_command(*frame)[0].message.message_id.entryId for frame in found]
    assert ids == list(range(20_000))


@pytest.mark.parametrize("size", [10_000, 8192, 8191])
def test_a_large_entry_alone(size: int) -> None:
    expected = frames.payload_frame(entry_commands.message(1, MessageId(7, 3, -1)), bytes(size))
    assert b"".join(message_frames(1, 7, 3, -1, bytes(size), [0], [size])) == expected


LOW, NEAR, FAR = (
    st.integers(0, 127),
    st.integers(120, 300) | st.integers(2**14 - 9, 2**14 + 9) | st.integers(2**21 - 9, 2**21 + 9),
    st.integers(0, 2**40),
)
IDS = (
    st.lists(LOW | NEAR | FAR, min_size=1, unique=True)
    | st.lists(NEAR | st.integers(128, 2**30), min_size=1, unique=True)
    | st.builds(lambda first, count: list(range(first, first + count)), NEAR | LOW, st.integers(1, 40))
).map(sorted)


@given(IDS, st.booleans(), st.booleans(), st.sampled_from([0, 6, 8_191, 8_192, 9_000]))
def test_each_frame_is_that_of_the_entry_alone(entry_ids: list[int], counted: bool, cut: bool, second: int) -> None:
    # covers SUB-4
    sizes = [second if index == 1 else 5 + index // 2 for index in range(len(entry_ids))]
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
            *(7, 5, entry_id, -1, buffer),
            *(None if each is None else each[index : index + 1] for each in (starts, ends, counts, sets)),  # type: ignore[arg-type]
        )
    ]
    assert b"".join(sparse) == b"".join(alone)
