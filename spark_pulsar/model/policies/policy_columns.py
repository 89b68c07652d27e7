"""The columns of the table of policies: what a row of `policy_table` says of a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

from .json_values import Reader
from .stored_policies import ByName


class Null(Enum):
    """Meanings of a request that sets a policy without a value."""

    IS_A_VALUE = auto()
    """The body is read like any other."""
    REMOVES = auto()
    KEEPS = auto()
    """Nothing changes."""


@dataclass(frozen=True, slots=True)
class Level:
    """A policy of one level: namespaces or topics."""

    path: str
    """Last segment of its REST path."""
    refusal: str = ""
    """Text of a refused value; empty is what the type says."""
    method: str = "POST"
    """HTTP method that sets it."""
    set_status: int = 204
    """Answer to the method that sets it."""
    removal: str = ""
    """Last segment of the path that removes it, where it is another one."""
    parameter: str = ""
    """Query parameter that holds its value; empty is the body."""
    can_delete: bool = True
    null: Null = Null.IS_A_VALUE
    unset: Any = None
    """Answer when it is not set; None is an empty body."""
    unset_status: int = 200
    unset_is_default: bool = False
    """An unset policy is answered with the configuration's value."""
    applied: bool = True
    """An unset policy is answered, if the request has `applied`, with the value in effect."""
    word: str = ""
    """Word of its commands, where it is not the row's."""
    names: str = ""
    """Names of its first option, where they are not the row's."""


class Kind(NamedTuple):
    """The type of a policy."""

    name: str
    read: Reader
    """Reads the value of stored JSON."""
    store: Callable[[Any, Level], Any] | None = None
    """Reads a request's body and returns the JSON to store; raises PulsarError. None: REST and commands have own
    code."""
    show: Callable[[Any], Any] = lambda value: value
    """Returns the JSON of a value."""
    parts: Mapping[str, Reader] | ByName | None = None
    """Readers of the members of a policy that holds several."""
    make: Callable[..., Any] = lambda value: value
    """Makes the default of the configuration's values."""


class Written(Enum):
    """Forms of a command's option; the name is the unit or type that the value is converted to."""

    NUMBER = auto()
    COUNT = auto()
    """0 or more."""
    POSITIVE = auto()
    """1 or more."""
    FRACTION = auto()
    TEXT = auto()
    UPPER_CASE = auto()
    WORDS = auto()
    """Words by commas, to a list."""
    FLAG = auto()
    SWITCH = auto()
    """Two flags, exactly one of which is given: `(--enable, --disable)`."""
    BYTES = auto()
    """`10M`, as are MIB."""
    MIB = auto()
    SECONDS = auto()
    """`3h`, as are MILLISECONDS and MINUTES."""
    MILLISECONDS = auto()
    MINUTES = auto()


class Option(NamedTuple):
    """An option of the command that sets a policy."""

    member: str
    """Member of the request's body; empty is the body itself."""
    names: str
    """Its names with a blank between them."""
    written: Written = Written.NUMBER
    help: str = ""
    default: Any = ...
    """Value without the option; `...` is none: the option is required."""


def flag(member: str, names: str, text: str) -> Option:
    """Makes the option that is off where it is not given."""
    return Option(member, names, Written.FLAG, text, False)


@dataclass(frozen=True, slots=True)
class Policy:
    """One row."""

    member: str
    """Member of Apache Pulsar's document of policies under which it is stored."""
    kind: Kind
    meaning: str
    """One sentence that continues "Set"."""
    namespace: Level | None
    topic: Level | None
    policy_name: str = ""
    """Apache Pulsar's name of the policy where roles are refused (AU-8)."""
    field: str = ""
    """Field of `EffectivePolicies`; empty where the broker computes it of several rows."""
    word: str = ""
    """Word of the commands: `set-WORD`."""
    options: tuple[Option, ...] = ()
    help: str = ""
    """Help of the command that sets it, where it is not the meaning; `{path}` is the level's."""
    shows: str = ""
    """Help of the command that gets it, for a policy without a command that removes it."""
    defaults: tuple[str, ...] = ()
    """Fields of the broker's configuration that hold its default."""
    without_effect: str = ""
    """Reason why this broker stores the policy and acts upon nothing of it, sent to the caller that sets it; empty for
    a policy that has an effect."""

    def default(self, config: object) -> Any:
        """Returns the value that holds when the policy is set nowhere."""
        return self.kind.make(*(getattr(config, name) for name in self.defaults))

    def value(self, policies: Mapping[str, Any], config: object) -> Any:
        """Returns the value that merged policies hold, or the default."""
        stored = policies.get(self.member)
        return self.default(config) if stored is None else self.kind.read(stored)
