"""Configuration over REST (admin-rest.md 1.10): the values that hold, and the keys that may be set while the broker
runs (ADM-1, ADM-2, ADM-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.turn import dynamic_config
from spark_pulsar.broker.turn.dynamic_config import DYNAMIC_KEYS
from spark_pulsar.broker.upkeep import configuring
from spark_pulsar.ledger.records.documents import DYNAMIC_CONFIGURATION

from .answers import Refused
from .calls import changes, reads

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

    from .calls import Call, Routes


def _names(_core: Core, _call: Call) -> object:
    return list(DYNAMIC_KEYS)


def _values(core: Core, _call: Call) -> object:
    return dict(core.state.documents[DYNAMIC_CONFIGURATION])


def _runtime(core: Core, _call: Call) -> object:
    """Lists every key with the text that holds, secrets masked."""
    set_here = core.state.documents[DYNAMIC_CONFIGURATION]
    return dict(core.static_config.texts) | {name: text for name, text in set_here.items() if name in DYNAMIC_KEYS}


def _internal(core: Core, _call: Call) -> object:
    """Tells the place of metadata and ledgers: the data directory, as Apache Pulsar tells that of its one-node
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
    name, text = _name(core, call, "update"), call.parts["value"]
    try:
        dynamic_config.read(name, text)
    except ValueError as error:
        raise Refused(412, f"Invalid dynamic-config value {error}") from error
    configuring.set_key(core, name, text)


def _delete(core: Core, call: Call) -> None:
    configuring.delete_key(core, _name(core, call, "delete"))


_PATH: Final = "admin/v2/brokers/configuration"

ROUTES: Final[Routes] = (
    (_PATH, {"GET": reads(_names)}),
    (f"{_PATH}/values", {"GET": reads(_values)}),
    (f"{_PATH}/runtime", {"GET": reads(_runtime)}),
    ("admin/v2/brokers/internal-configuration", {"GET": reads(_internal)}),
    (f"{_PATH}/{{name}}/{{value}}", {"POST": changes(_set, 200)}),
    (f"{_PATH}/{{name}}", {"DELETE": changes(_delete, 200)}),
)
