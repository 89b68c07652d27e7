"""Names by namespace, in order, whatever came and went before."""

from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.model.name_index import NameIndex
from spark_pulsar.model.names import TopicName, is_hidden, without_partition

NAMES = [f"persistent://public/{namespace}/{local}" for namespace in ("a", "ab") for local in ("x", "y-1", "y-10", "z")]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.booleans())))
def test_the_index_holds_what_is_there(steps: list[tuple[str, bool]]) -> None:
    index, there = NameIndex(), set[str]()
    for name, is_read in steps:
        if name in there:
            index.remove(name)
        else:
            index.add(name)
        there ^= {name}
        for namespace in ("persistent://public/a/", "persistent://public/ab/"):
            wanted = sorted(name for name in there if name.startswith(namespace))
            assert index.count(namespace) == len(wanted)
            if is_read:
                assert index.names(namespace) == wanted


def test_a_list_that_was_read_stays_as_it_is() -> None:
    index = NameIndex()
    for number in range(5_000):
        index.add(f"persistent://a/b/{number:05}")
    names = index.names("persistent://a/b/")
    known = list(names)
    index.remove(names[7])
    index.add("persistent://a/b/0")
    assert index.names("persistent://a/b/") == sorted([*known[:7], *known[8:], "persistent://a/b/0"])
    assert names == known
    for name in list(index.names("persistent://a/b/")):
        index.remove(name)
    assert index.names("persistent://a/b/") == []
    assert index.count("persistent://a/b/") == 0


@given(
    st.text(alphabet="_-partion0123x", min_size=1, max_size=30).filter(str.strip),
    st.sampled_from(["a/b", "pulsar/system"]),
)
def test_texts_say_of_names_what_names_say(local: str, namespace: str) -> None:
    for text in (local, f"{local}-partition-3", f"{local}-partition-03", f"{local}__transaction_pending_ack"):
        name = TopicName.parse(f"persistent://{namespace}/{text}")
        assert without_partition(name.full) == name.base.full
        assert is_hidden(name.full) == name.is_hidden
