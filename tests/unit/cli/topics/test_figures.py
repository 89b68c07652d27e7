"""Rows of `top` from the statistics of a broker."""

from typing import Any

import pytest

from spark_pulsar.cli.topics.figures import Sampler
from spark_pulsar.cli.topics.topic_table import plain_table, size_text


def statistics(**counts: int) -> dict[str, Any]:
    """An answer with topics of `public/default` that have received so many messages of ten bytes."""
    topics = {
        f"persistent://public/default/{name.replace('__', '-')}": {
            "msgInCount": count,
            "bytesInCount": 10 * count,
            "msgRateIn": 7.0,
            "msgThroughputIn": 70.0,
            "producerCount": 1,
            "storageSize": 100,
            "subscriptions": {
                "a": {"msgBacklog": 2, "unackedMessages": 1, "consumers": [{}]},
                "b": {"msgBacklog": 3, "consumers": [{"unackedMessages": 4}, {"unackedMessages": 5}]},
            },
        }
        for name, count in counts.items()
    }
    system = {"persistent://public/default/__change_events": {}}
    return {
        "public/default": {"0x0_0xf": {"persistent": topics | system}},
        "pulsar/system": {"0x0_0xf": {"persistent": {"persistent://pulsar/system/x": {}}}},
        "pulsar/c/h:1": {"0x0_0xf": {"persistent": {"persistent://pulsar/c/h:1/healthcheck": {}}}},
    }


def test_partitions_are_together_and_the_broker_s_own_topics_left_out() -> None:
    answer = statistics(**{"t-partition-0": 1, "t-partition-1": 2, "u": 3})
    rows = {row.topic.rpartition("/")[2]: row for row in Sampler().rows(answer, 0.0, "", each_partition=False)}
    assert rows.keys() == {"t", "u"}
    both, one = rows["t"], rows["u"]
    assert (both.partitions, both.rate_in, both.producers, both.subscriptions, both.storage) == (2, 14.0, 2, 2, 200)
    assert (both.backlog, both.unacked, both.consumers) == (10, 20, 6)
    assert (one.partitions, one.backlog, one.unacked, one.consumers) == (0, 5, 10, 3)
    each = Sampler().rows(answer, 0.0, "public/default", each_partition=True)
    assert len(each) == 3
    assert [row.topic for row in Sampler().rows(answer, 0.0, "pulsar", each_partition=False)] == [
        "persistent://pulsar/system/x",
        "persistent://pulsar/c/h:1/healthcheck",
    ]


def rates(sampler: Sampler, *looks: tuple[float, int]) -> list[float]:
    return [sampler.rows(statistics(t=count), at_s, "", each_partition=False)[0].rate_in for at_s, count in looks]


def test_a_broker_that_answers_at_once_has_rates_of_the_interval() -> None:
    # its own rate, 7, until counters were seen to move twice
    assert rates(Sampler(), (0, 10), (2, 20), (4, 40), (6, 40), (8, 30)) == [7.0, 7.0, 10.0, 0.0, 0.0]


@pytest.mark.parametrize("interval_s", [2, 30, 45])
def test_a_broker_that_holds_its_answer_back_has_its_own_rates(interval_s: int) -> None:
    looks = [(float(at_s), at_s // 60 * 100) for at_s in range(0, 600, interval_s)]
    assert set(rates(Sampler(), *looks)) == {7.0}


def test_a_table_has_columns_below_one_another() -> None:
    rows = Sampler().rows(statistics(short=1, **{"a" * 50: 1}), 0.0, "", each_partition=False)
    lines = plain_table(rows).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1].split() == ["short", "7.0", "0", "0.00", "0.00", "5", "10", "1", "3", "2", "100"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0"), (999, "999"), (1024, "1.0K"), (150_000, "146K"), (5 << 30, "5.0G"), (1 << 60, "1048576T")],
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text
