"""Finding delayed entries in a run, against parsing every entry."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.wire.entries.delays import Delay, delays_in
from spark_pulsar.wire.entries.entry_bytes import build_entry, metadata_of
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

LURE = b"\x98\x01\x98\x98\x01"
"""Bytes that look like the field and are not, in payloads and names."""


def entry_of(deliver_at_ms: int | None, payload: bytes, name: str = "p", *, with_checksum: bool = True) -> bytes:
    metadata = MessageMetadata(producer_name=name, sequence_id=152, publish_time=1_795_000_000_000)
    if deliver_at_ms is not None:
        metadata.deliver_at_time = deliver_at_ms
    return build_entry(metadata, payload, with_checksum)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.builds(
            entry_of,
            st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
            st.sampled_from((b"", LURE, LURE * 9, b"x" * 2_000 + LURE)),
            st.sampled_from(("p", "\u0098\u0001", "p" * 152)),
            with_checksum=st.booleans(),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_same_as_parsing_everything(entries: list[bytes]) -> None:
    # covers DEL-1, DEL-10
    buffer, starts, ends = b"", [], []
    for entry in entries:
        buffer += LURE
        starts.append(len(buffer))
        buffer += entry
        ends.append(len(buffer))
    expected = []
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        metadata = metadata_of(buffer, start, end)
        if metadata.deliver_at_time > 0:
            expected.append(Delay(index, metadata.deliver_at_time, metadata.publish_time))
    assert delays_in(buffer + LURE, starts, ends) == expected


def test_metadata_that_cannot_be_read_have_no_time() -> None:
    for entry in (b"\x0e\x01", b"\x0e\x01\0\0\0\0\0\0\0\x02\x98\x01", b"\x98\x01\x98\x01\x98\x01", b"\x98"):
        assert delays_in(entry, [0], [len(entry)]) == []
