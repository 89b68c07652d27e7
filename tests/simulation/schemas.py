"""Schemas: versions are told when they are on disk, count up from 0 without a gap, and each says for ever what it said
first (SC-1, SC-9, SC-10)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.state import schemas as sr
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, Schema

from .comparing import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from .judge import Judge


def _definition(fields: tuple[str, ...]) -> bytes:
    """Each may follow each: no field must be there."""
    found = [{"name": field, "type": ["null", "string"], "default": None} for field in ("z", *fields)]
    return json.dumps({"type": "record", "name": "R", "fields": found}).encode()


DEFINITIONS: Final = tuple(_definition(fields) for count in range(3) for fields in combinations("abc", count))


def on_wire(data: bytes) -> Schema:
    """Builds the schema that a client brings."""
    return Schema(name="R", schema_data=data, type=Schema.Avro)


def name_of(topic_name: str) -> str:
    """Tells the name that a topic's schemas are kept under."""
    base = TopicName.parse(topic_name).base
    return f"{base.tenant}/{base.namespace}/{base.local}"


@dataclass(slots=True)
class _Asked:
    name: str
    data: bytes | None
    """Definition that was brought, or must be found; None: there is none."""
    turn: int
    """Count of deletions of the name's schemas before."""
    version: int = -1
    """Version of the schema that must be found, ..."""
    is_latest: bool = False
    """... or a later one."""


class Schemas:
    """Judges the records of schemas, and what one core tells of them."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.deleting: set[str] = set()
        """Names of schemas whose deletion was requested in this turn."""
        self._gone: dict[str, int] = {}
        self._asked: dict[tuple[int, int, int], _Asked] = {}
        self.handlers: dict[type, Callable[[Any], None]] = {
            sr.SchemaAdded: self._added,
            sr.SchemasDeleted: self._deleted,
            sr.SchemasForgotten: self._forgotten,
        }
        self.on_command: dict[int, Callable[[int, Any], None]] = {
            BaseCommand.GET_SCHEMA: self._get,
            BaseCommand.GET_OR_CREATE_SCHEMA: self._register,
        }
        self.on_answer: dict[int, Callable[[int, Any], None]] = {
            BaseCommand.GET_SCHEMA_RESPONSE: self._got,
            BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE: self._registered,
        }

    def begin_life(self) -> None:
        """Begins with a start of the broker, without connections."""
        self._asked.clear()

    # Records

    def _added(self, record: sr.SchemaAdded) -> None:
        known = self._judge.current.schemas.get(record.name, [])
        if record.version != len(known):
            raise Violation(f"{record.name} gets schema {record.version}, {len(known)} is next (SC-1)")
        if record.data in known:
            raise Violation(f"{record.name} gets schema {record.version}, which it has (SC-1)")
        self._judge.post("schema_added", record.name, record.data)

    def _deleted(self, record: sr.SchemasDeleted) -> None:
        if record.name not in self.deleting or record.version != len(self._judge.current.schemas[record.name]):
            raise Violation(f"schemas of {record.name} go with version {record.version} (SC-10)")
        self._go(record.name, "schemas_deleted")

    def _forgotten(self, record: sr.SchemasForgotten) -> None:
        if not self._judge.is_deleting(f"persistent://{record.name}"):
            raise Violation(f"schemas of {record.name} go without a request (SC-10)")
        self._go(record.name, "schemas_forgotten")

    def _go(self, name: str, posting: str) -> None:
        self._gone[name] = self._gone.get(name, 0) + 1
        self._judge.post(posting, name)

    # What clients ask for, and are told

    def _ask(
        self,
        kind: int,
        session_id: int,
        command: Any,
        data: bytes | None,
        version: int = -1,
        *,
        is_latest: bool = False,
    ) -> None:
        name = name_of(command.topic)
        asked = _Asked(name, data, self._gone.get(name, 0), version, is_latest)
        self._asked[kind, session_id, command.request_id] = asked

    def ask_producer(self, session_id: int, command: Any) -> None:
        """PRODUCER of one that is not there."""
        if command.HasField("schema"):
            self._ask(BaseCommand.PRODUCER, session_id, command, command.schema.schema_data)

    def producer_ready(self, session_id: int, success: Any) -> None:
        """PRODUCER_SUCCESS."""
        if success.producer_ready:
            self._check(self._asked.pop((BaseCommand.PRODUCER, session_id, success.request_id), None), success)

    def _register(self, session_id: int, command: Any) -> None:
        self._ask(BaseCommand.GET_OR_CREATE_SCHEMA, session_id, command, command.schema.schema_data)

    def _registered(self, session_id: int, answer: Any) -> None:
        asked = self._asked.pop((BaseCommand.GET_OR_CREATE_SCHEMA, session_id, answer.request_id), None)
        if not answer.HasField("error_code"):
            self._check(asked, answer)

    def _check(self, asked: _Asked | None, answer: Any) -> None:
        """A version is told for what was brought."""
        if asked is None or asked.turn != self._gone.get(asked.name, 0):
            return
        version = int.from_bytes(answer.schema_version, "big", signed=True)
        known = self._judge.durable.schemas.get(asked.name, [])
        if not 0 <= version < len(known) or known[version] != asked.data:
            raise Violation(f"{asked.name}: version {version} is told, {len(known)} are on disk (SC-1)")

    def _get(self, session_id: int, command: Any) -> None:
        known = self._judge.current.schemas.get(name_of(command.topic), [])
        version, is_latest = len(known) - 1, not command.HasField("schema_version")
        data = known[-1] or b"" if known else None
        if not is_latest:
            version = int.from_bytes(command.schema_version, "big", signed=True)
            data = known[version] if 0 <= version < len(known) else None
        self._ask(BaseCommand.GET_SCHEMA, session_id, command, data, version, is_latest=is_latest)

    def _got(self, session_id: int, answer: Any) -> None:
        asked = self._asked.pop((BaseCommand.GET_SCHEMA, session_id, answer.request_id), None)
        if asked is None or asked.turn != self._gone.get(asked.name, 0):
            return
        version = int.from_bytes(answer.schema_version, "big", signed=True)
        known = self._judge.durable.schemas.get(asked.name, [])
        if answer.HasField("error_code"):
            if asked.data is not None:
                raise Violation(f"{asked.name}: nothing is shown, and there is {asked} (SC-9)")
        elif version < asked.version or (version > asked.version and not asked.is_latest):
            raise Violation(f"{asked.name}: version {version} is shown for {asked} (SC-9, SC-10)")
        elif version >= len(known) or (known[version] or b"") != answer.schema.schema_data:
            raise Violation(f"{asked.name}: version {version} is shown, which is not on disk so (SC-9, SC-10)")
