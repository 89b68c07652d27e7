"""Topic names: any text is refused, or a name whose full text means the same. Covers TN-1 ... TN-5."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import TopicName

QUICK = settings(max_examples=300, deadline=None, derandomize=True)
PARTS = st.text(alphabet="abZ09_-=:. /%ü", max_size=8)


@QUICK
@given(
    st.one_of(
        st.text(max_size=30),
        st.builds(
            "{}://{}/{}/{}".format, st.sampled_from(["persistent", "non-persistent", "x", ""]), PARTS, PARTS, PARTS
        ),
        st.builds("{}/{}/{}".format, PARTS, PARTS, PARTS),
    )
)
def test_any_text(text: str) -> None:
    try:
        name = TopicName.parse(text)
    except InvalidTopicName:
        return
    assert TopicName.parse(name.full) == name
    assert name.full.count("/") == 4
    assert name.domain in ("persistent", "non-persistent")
    assert name.local.strip()
    base = name.base
    assert (base == name) == (name.partition < 0)
    assert TopicName.parse(base.full) == base or not base.local.strip()


@QUICK
@given(st.text(alphabet="ab-partition0123456789", min_size=1, max_size=20), st.integers(0, 2**31 - 1))
def test_partitions_of_any_topic(local: str, index: int) -> None:
    name = TopicName("persistent", "t", "n", local)
    partition = name.at_partition(index)
    assert (partition.base, partition.partition) == (name, index)
    assert TopicName.parse(partition.full) == partition
