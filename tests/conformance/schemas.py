"""Asking a broker about schemas frame by frame, and the definitions that the tests of schemas share."""

from __future__ import annotations

import json
import struct
from typing import Any

from tests.brokers import Broker, topic_path
from tests.conformance.test_namespaces import fresh
from tests.eventually import eventually
from tests.raw import Frame, RawConnection

A: dict[str, Any] = {"name": "a", "type": "int"}
B_WITH_DEFAULT: dict[str, Any] = {"name": "b", "type": ["null", "int"], "default": None}
B_REQUIRED: dict[str, Any] = {"name": "b", "type": "int"}
INCOMPATIBLE = "IncompatibleSchema"


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> bytes:
    """The Avro definition of a record."""
    return json.dumps({"type": "record", "name": name, "fields": list(fields), **more}).encode()


def of_topic(topic: str) -> str:
    """The path of a topic's schemas."""
    return topic_path(topic).replace("/persistent/", "/schemas/")


class Schemas:
    """One connection that asks about schemas, with ids of its own."""

    def __init__(self, raw: RawConnection) -> None:
        self.raw = raw
        self._ids = 0

    def produce(self, topic: str, data: bytes | None = None, type_: str = "Avro", **properties: str) -> Any:
        """The version that a producer is told, or the error."""
        schema = {} if data is None else {"schema": _wire(data, type_, properties)}
        answer = self._open("PRODUCER", topic, "producer_id", **schema)
        return answer["error"] if answer.type == "ERROR" else _version(answer["schema_version"])

    def consume(self, topic: str, data: bytes, type_: str = "Avro", **properties: str) -> str | None:
        """None for a consumer that may come, or the error."""
        schema = _wire(data, type_, properties)
        answer = self._open("SUBSCRIBE", topic, "consumer_id", schema=schema, subscription="s", subType="Shared")
        return answer["error"] if answer.type == "ERROR" else None

    def get(self, topic: str, version: int | None = None) -> Frame:
        """GET_SCHEMA_RESPONSE."""
        wanted = {} if version is None else {"schema_version": struct.pack(">q", version)}
        return self.raw.request("GET_SCHEMA", topic=topic, **wanted)

    def get_or_create(self, topic: str, data: bytes, type_: str = "Avro") -> Any:
        """The version, or the error."""
        answer = self.raw.request("GET_OR_CREATE_SCHEMA", topic=topic, schema=_wire(data, type_, {}))
        return answer.fields.get("error_code") or _version(answer["schema_version"])

    def _open(self, type_name: str, topic: str, id_name: str, **fields: Any) -> Frame:
        self.raw.request("LOOKUP", topic=topic)
        self._ids += 1
        return self.raw.request(type_name, topic=topic, **{id_name: self._ids}, **fields)


def _wire(data: bytes, type_: str, properties: dict[str, str]) -> dict[str, Any]:
    pairs = [{"key": key.replace("_", "."), "value": value} for key, value in properties.items()]
    return {"name": "n", "schema_data": data, "type": type_, **({"properties": pairs} if pairs else {})}


def _version(text: str) -> int | None:
    return int(text, 16) if text else None


def fresh_namespace(broker: Broker) -> str:
    """A new namespace, as the path of its policies."""
    return f"/admin/v2/namespaces/{broker.namespace({'bundles': {'numBundles': 1}})}"


def topic_in(namespace: str) -> str:
    return f"persistent://{namespace.removeprefix('/admin/v2/namespaces/')}/{fresh('t')}"


def set_policy(broker: Broker, path: str, name: str, value: object) -> None:
    method = "PUT" if "Strategy" in name else "POST"
    assert broker.rest(method, f"{path}/{name}", value)[0] == 204
    eventually(lambda: broker.rest("GET", f"{path}/{name}")[1] == value)
