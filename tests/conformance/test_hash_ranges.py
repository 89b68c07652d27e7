"""Key_Shared by ranges of hashes, where a newcomer takes half of the widest one
(`subscriptionKeySharedUseConsistentHashing=false`)."""

from __future__ import annotations

from tests.brokers import Broker, topic_path
from tests.raw import RawConnection


def test_who_joins_takes_half_of_the_widest_range_and_who_leaves_gives_it_to_a_neighbour(
    switched_broker: Broker,
) -> None:
    # covers KS-3, KS-4, KS-5, X6, X7, X8: the worked example of the concepts, step by step
    broker, topic = switched_broker, switched_broker.topic()
    producer = broker.client().create_producer(topic, batching_enabled=False)
    consumers: dict[str, RawConnection] = {}

    def ranges() -> list[tuple[str, int, int]]:
        """Who has which hashes, from below."""
        stats = broker.rest("GET", f"{topic_path(topic)}/stats")[1]["subscriptions"]["s"]["consumers"]
        found = [(each["consumerName"], *pair) for each in stats for pair in each["keyHashRangeArrays"]]
        return sorted(found, key=lambda each: each[1:])

    def join(name: str) -> None:
        raw = consumers[name] = broker.raw()
        raw.request("LOOKUP", topic=topic)
        wanted = {"topic": topic, "subscription": "s", "subType": "Key_Shared", "consumer_name": name}
        assert raw.request("SUBSCRIBE", consumer_id=1, **wanted).type == "SUCCESS"
        raw.send("FLOW", consumer_id=1, messagePermits=100)

    def leave(name: str) -> None:
        assert consumers.pop(name).request("CLOSE_CONSUMER", consumer_id=1).type == "SUCCESS"

    def expect_at(name: str) -> None:
        """The order of the example, with slot 6067, is for that one."""
        producer.send(b"x", partition_key="Order-3459134")
        message = consumers[name].expect("MESSAGE")
        ids = [{"ledgerId": message.position[0], "entryId": message.position[1]}]
        assert consumers[name].request("ACK", consumer_id=1, ack_type="Individual", message_id=ids)

    join("C1")
    whole = ranges()
    assert [(name, end) for name, _, end in whole] == [("C1", whole[-1][2])]
    expect_at("C1")
    steps = [
        (join, "C2", ["C2", "C1"], [32768]),
        (join, "C3", ["C3", "C2", "C1"], [16384, 32768]),
        (join, "C4", ["C3", "C2", "C4", "C1"], [16384, 32768, 49152]),
        (leave, "C4", ["C3", "C2", "C1"], [16384, 32768]),
        (leave, "C1", ["C3", "C2"], [16384]),
    ]
    for step, name, names, bounds in steps:
        step(name)
        found = ranges()
        assert [each[0] for each in found] == names
        assert [end for _, _, end in found[:-1]] == bounds
        assert [start for _, start, _ in found] == [whole[0][1], *(end + 1 for end in bounds)]
        assert found[-1][2] == whole[0][2]
        expect_at(names[0])
