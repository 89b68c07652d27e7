"""Pictures of the page for the docs: `python -m tests.page.screenshots` writes docs/images/page-*.png.

A broker with the topics of a shop, on which producers and consumers run while the pictures are taken.
"""

import json
import random
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

import pulsar
from playwright.sync_api import Page
from pulsar.schema import AvroSchema, Float, Integer, Record, String

from spark_pulsar import broker_process

from .browser import launched

FOLDER: Final = Path("docs/images")
MOST_BYTES: Final = 200_000
SIZE: Final = {"width": 1440, "height": 900}
_WATCHED_S: Final = 240.0
"""Time in which the plots fill."""
_SETTLED_S: Final = 3.0
"""Time in which a view of another width is drawn anew."""
_NAMESPACES: Final = ("shop/orders", "shop/catalog", "analytics/events", "analytics/features", "public/default")
_TOPICS: Final = {
    "shop/orders": ["orders-placed", "orders-paid", "orders-shipped", "refunds", "invoices", "order-history"],
    "shop/catalog": ["products", "prices", "stock-levels", "product-images"],
    "analytics/events": ["page-views", "searches", "sessions", "clicks-enriched"],
    "analytics/features": ["user-features", "item-features"],
    "public/default": ["hello"],
}
_ITEMS: Final = ("teapot", "bicycle bell", "desk lamp", "field notebook", "cast-iron pan", "rain jacket")


class Order(Record):  # type: ignore[misc]
    """An order of the shop."""

    order_id = Integer(required=True)
    customer = String(required=True)
    item = String(required=True)
    quantity = Integer(required=True)
    price = Float(required=True)


class Shop:
    """Clients that publish and consume until they are told to stop."""

    def __init__(self, service_url: str) -> None:
        self._client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []

    def stop(self) -> None:
        """Ends all clients."""
        self._end.set()
        for each in self._threads:
            each.join()
        self._client.close()

    def publish(self, topic: str, per_s: float, schema: Any = None, size: int = 200) -> None:
        """Publishes to a topic, some seconds faster and some slower."""
        self._start(self._publish, topic, per_s, schema, size)

    def consume(
        self, topic: str, subscription: str, share: float = 1.0, kind: Any = pulsar.ConsumerType.Shared
    ) -> None:
        """Consumes from a topic; a share below 1 lets the backlog grow."""
        consumer = self._client.subscribe(topic, subscription, kind, receiver_queue_size=50)
        self._start(self._consume, consumer, share)

    def _start(self, target: Any, *values: Any) -> None:
        thread = threading.Thread(target=target, args=values, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _publish(self, topic: str, per_s: float, schema: Any, size: int) -> None:
        settings = {} if schema is None else {"schema": schema}
        producer = self._client.create_producer(topic, batching_max_publish_delay_ms=20, **settings)
        chance = random.Random(topic)
        number = 0
        while not self._end.wait(0.1):
            wave = 1 + 0.35 * chance.random() + 0.4 * ((time.monotonic() // 20) % 3)
            for _ in range(round(per_s * wave / 10 + chance.random())):
                number += 1
                producer.send_async(
                    self.value(schema, chance, number, size), None, partition_key=f"customer-{number % 97}"
                )
        producer.flush()

    @staticmethod
    def value(schema: Any, chance: random.Random, number: int, size: int) -> Any:
        """The value of a message: an order where there is a schema, else JSON."""
        if schema is None:
            return json.dumps(
                {"session": f"{chance.getrandbits(40):x}", "path": "/items/" + "x" * (size // 10)}
            ).encode()
        return Order(
            order_id=81_000 + number,
            customer=f"customer-{number % 97}",
            item=chance.choice(_ITEMS),
            quantity=chance.randrange(1, 5),
            price=round(chance.uniform(5, 90), 2),
        )

    def _consume(self, consumer: pulsar.Consumer, share: float) -> None:
        while not self._end.is_set():
            try:
                message = consumer.receive(200)
            except pulsar.Timeout:
                continue
            consumer.acknowledge(message)
            if share < 1:
                self._end.wait(0.002 / share)


def _rest(admin_url: str, method: str, path: str, body: Any = None) -> None:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{admin_url}/admin/v2/{path}", data, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=30):
        pass


def set_up(admin_url: str) -> None:
    """Makes tenants, namespaces, policies and topics."""
    for tenant in ("shop", "analytics"):
        _rest(admin_url, "PUT", f"tenants/{tenant}", {"adminRoles": [], "allowedClusters": ["standalone"]})
    for namespace in _NAMESPACES[:-1]:
        _rest(admin_url, "PUT", f"namespaces/{namespace}", {})
    _rest(admin_url, "PUT", "persistent/shop/orders/orders-placed/partitions", 4)
    _rest(
        admin_url,
        "POST",
        "namespaces/shop/orders/retention",
        {"retentionTimeInMinutes": 4320, "retentionSizeInMB": 10240},
    )
    _rest(admin_url, "POST", "namespaces/shop/orders/messageTTL", 604_800)
    _rest(admin_url, "POST", "namespaces/shop/orders/maxConsumersPerTopic", 200)
    for namespace, topics in _TOPICS.items():
        for topic in topics:
            if topic != "orders-placed":
                _rest(admin_url, "PUT", f"persistent/{namespace}/{topic}")
    _rest(admin_url, "POST", "persistent/shop/orders/orders-paid/messageTTL?messageTTL=86400")
    _rest(admin_url, "PUT", "persistent/shop/orders/orders-paid/subscription/fraud-check")  # nobody consumes
    quota = {"limitSize": 2 << 30, "limitTime": -1, "policy": "producer_request_hold"}
    _rest(admin_url, "POST", "persistent/shop/orders/orders-paid/backlogQuota", quota)


def run(shop: Shop) -> None:
    """Starts the clients."""
    for topic, subscription, share in (
        ("shop/orders/orders-placed", "billing", 1),
        ("shop/orders/orders-placed", "warehouse", 1),
        ("shop/orders/orders-paid", "spark-revenue", 1),
        ("shop/orders/orders-paid", "billing", 1),
        ("shop/orders/orders-paid", "audit", 0.03),
        ("shop/catalog/prices", "search-index", 1),
        ("analytics/events/page-views", "spark-sessions", 0.04),
        ("analytics/events/searches", "trends", 1),
    ):
        shop.consume(topic, subscription, share)
    schema = AvroSchema(Order)
    shop.publish("shop/orders/orders-placed", 120, schema)
    shop.publish("shop/orders/orders-paid", 90, schema)
    for topic, per_s in (("shop/orders/orders-shipped", 40), ("shop/orders/refunds", 4), ("shop/catalog/prices", 25)):
        shop.publish(topic, per_s)
    for topic, per_s in (("page-views", 260), ("searches", 60), ("sessions", 18), ("clicks-enriched", 35)):
        shop.publish(f"analytics/events/{topic}", per_s, size=600)


BATCHED: Final = "shop/orders/order-history"
_BATCHED_MESSAGES: Final = 10_000
_BATCH: Final = 1000


def publish_batches(service_url: str) -> None:
    """Publishes 10,000 orders in batches of 1,000, as Spark's sink does."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(
        BATCHED,
        schema=AvroSchema(Order),
        batching_enabled=True,
        batching_max_messages=_BATCH,
        batching_max_allowed_size_in_bytes=4 << 20,
        batching_max_publish_delay_ms=60_000,
        max_pending_messages=_BATCHED_MESSAGES,
    )
    chance = random.Random(BATCHED)
    for number in range(_BATCHED_MESSAGES):
        order = Shop.value(AvroSchema, chance, number, 0)
        producer.send_async(order, None, partition_key=order.customer, properties={"batch": str(number // _BATCH)})
        if (number + 1) % _BATCH == 0:
            producer.flush()
    client.close()


PICTURES: Final = {
    "overview": "#/",
    "topic": "#/shop/orders/persistent/orders-paid",
    "messages": "#/shop/orders/persistent/order-history?messages",
    "why": "#/shop/orders/persistent/orders-paid/fraud-check",
    "policies": "#/shop/orders/persistent/orders-paid?policies",
}
_NARROW: Final = {"width": 400, "height": 800}
"""A phone: its pictures are light, of the views that change most on it."""
_ON_A_PHONE: Final = ("overview", "messages", "why")


def take(page: Page, name: str, look: str) -> Path:
    """Takes one picture."""
    path = FOLDER / f"page-{name}-{look}.png"
    page.screenshot(path=path)
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES} bytes")
    return path


def main(watched_s: float = _WATCHED_S) -> None:
    """Starts a broker, its clients and a browser, and takes the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with broker_process() as broker, launched() as browser:
        set_up(broker.admin_url)
        publish_batches(broker.service_url)
        shop = Shop(broker.service_url)
        run(shop)
        pages = {}
        for name, place in PICTURES.items():
            pages[name] = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
            pages[name].goto(f"{broker.admin_url}/{place}")
        pages["overview"].wait_for_timeout(watched_s * 1000)
        pages["why"].get_by_role("button", name="Check again").click()
        pages["why"].get_by_text("cause found").wait_for()
        for name, page in pages.items():
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme, reduced_motion="reduce")
                print(take(page, name, theme))
        for name in _ON_A_PHONE:
            pages[name].emulate_media(color_scheme="light", reduced_motion="reduce")
            pages[name].set_viewport_size(_NARROW)
            pages[name].wait_for_timeout(_SETTLED_S * 1000)
            print(take(pages[name], name, "narrow"))
        shop.stop()


if __name__ == "__main__":
    main()
