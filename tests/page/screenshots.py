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
_NAMESPACES: Final = ("shop/orders", "shop/catalog", "analytics/events", "analytics/features", "public/default")
_TOPICS: Final = {
    "shop/orders": ["orders-placed", "orders-paid", "orders-shipped", "refunds", "invoices"],
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
                    self._value(schema, chance, number, size), None, partition_key=f"customer-{number % 97}"
                )
        producer.flush()

    @staticmethod
    def _value(schema: Any, chance: random.Random, number: int, size: int) -> Any:
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


PICTURES: Final = {
    "overview": "#/",
    "topic": "#/shop/orders/persistent/orders-paid",
    "messages": "#/shop/orders/persistent/orders-paid/audit?messages",
    "policies": "#/shop/orders/persistent/orders-paid?policies",
}


def take(page: Page, name: str, theme: str) -> Path:
    """Takes one picture."""
    path = FOLDER / f"page-{name}-{theme}.png"
    page.screenshot(path=path)
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES} bytes")
    return path


def main(watched_s: float = _WATCHED_S) -> None:
    """Starts a broker, its clients and a browser, and takes the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with broker_process() as broker, launched() as browser:
        set_up(broker.admin_url)
        shop = Shop(broker.service_url)
        run(shop)
        pages = {}
        for name, place in PICTURES.items():
            pages[name] = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
            pages[name].goto(f"{broker.admin_url}/{place}")
        pages["overview"].wait_for_timeout(watched_s * 1000)
        for name, page in pages.items():
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme, reduced_motion="reduce")
                print(take(page, name, theme))
        shop.stop()


if __name__ == "__main__":
    main()
