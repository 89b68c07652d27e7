"""Configuration over REST (ADM-1 ... ADM-4): the values that hold, and the keys that may be set while the broker
runs (ADM-1, ADM-2, ADM-3)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.answers import warned
from spark_pulsar.admin.http.calls import ADMIN_PATH, changes, reads, routes
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.broker.configuration import dynamic_config
from spark_pulsar.broker.configuration.dynamic_config import DYNAMIC_KEYS
from spark_pulsar.broker.upkeep import configuration_changes
from spark_pulsar.ledger.state.documents import DYNAMIC_CONFIGURATION

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.broker.entities.core import Core

LOG: Final = logging.getLogger("spark_pulsar.server")


def _names(_core: Core, _call: Call) -> object:
    return list(DYNAMIC_KEYS)


def _values(core: Core, _call: Call) -> object:
    return dict(core.state.documents[DYNAMIC_CONFIGURATION])


def _runtime(core: Core, _call: Call) -> object:
    """Lists every key with the text that holds, secrets masked (ADM-4, SEC-85)."""
    set_here = core.state.documents[DYNAMIC_CONFIGURATION]
    return dict(core.static_config.texts) | {name: text for name, text in set_here.items() if name in DYNAMIC_KEYS}


def _internal(core: Core, _call: Call) -> object:
    """Returns the place of metadata and ledgers: the data directory, as Apache Pulsar returns that of its one-node
    store."""
    url = f"file:{dict(core.static_config.texts).get('dataDirectory', '')}"
    members = ("zookeeperServers", "configurationStoreServers", "metadataStoreUrl", "configurationMetadataStoreUrl")
    return {**dict.fromkeys(members, url), "ledgersRootPath": "/ledgers"}


def _name(core: Core, call: Call, verb: str) -> str:
    name: str = call.parts["name"]
    if name not in DYNAMIC_KEYS:
        is_known = any(name == known for known, _ in core.static_config.texts)
        reason = (
            "it takes effect when the broker starts, set it in broker.conf" if is_known else "no key with an effect"
        )
        raise Refused(412, f"Can't {verb} non-dynamic configuration {name}: {reason}")
    return name


def _set(core: Core, call: Call) -> None:
    configuration_changes.set_key(core, _name(core, call, "update"), call.parts["value"])


async def _set_or_warn(call: Call) -> Response:
    """Stores the text of a key; one that cannot be read has no effect, which log and answer say (ADM-3)."""
    answer = await changes(_set, 200)(call)
    try:
        dynamic_config.read(call.parts["name"], call.parts["value"])
    except ValueError as error:
        note = f"Invalid dynamic-config value {error}; it has no effect".encode("unicode_escape").decode()
        LOG.warning(note)
        return warned(answer, note)
    return answer


def _delete(core: Core, call: Call) -> None:
    configuration_changes.delete_key(core, _name(core, call, "delete"))


ROUTES: Final[Routes] = routes(
    f"{ADMIN_PATH}/brokers",
    ("GET /configuration", access.broker("LIST_DYNAMIC_CONFIGURATIONS"), reads(_names)),
    ("GET /configuration/values", access.broker("LIST_DYNAMIC_CONFIGURATIONS"), reads(_values)),
    ("GET /configuration/runtime", access.broker("LIST_RUNTIME_CONFIGURATIONS"), reads(_runtime)),
    ("GET /internal-configuration", access.broker("GET_INTERNAL_CONFIGURATION_DATA"), reads(_internal)),
    ("POST /configuration/{name}/{value}", access.broker("UPDATE_DYNAMIC_CONFIGURATION"), _set_or_warn),
    ("DELETE /configuration/{name}", access.broker("DELETE_DYNAMIC_CONFIGURATION"), changes(_delete, 200)),
)
