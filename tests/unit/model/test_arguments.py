"""Calls with arguments that a function does not have."""

from __future__ import annotations

import pytest

from spark_pulsar.model.arguments import naming_arguments


@naming_arguments(lambda name: f"conf={{{name!r}: …}}" if name == "maxMessageSize" else "")
def start(data_dir: str, *, conf: object = None, http_port: int = 0) -> str:
    """Starts."""
    return f"{data_dir} {conf} {http_port}"


def test_a_right_call() -> None:
    assert start("data", http_port=1) == "data None 1"
    assert (start.__name__, start.__doc__) == ("start", "Starts.")


@pytest.mark.parametrize(
    ("arguments", "named", "reason"),
    [
        (("data",), {"httpPort": 1}, r"start\(\) has no argument httpPort: did you mean http_port\?"),
        (("data",), {"maxMessageSize": 1}, r"has no argument maxMessageSize: give conf=\{'maxMessageSize': …\}"),
        (("data",), {"frobnicate": 1}, "no argument frobnicate; its arguments are data_dir, conf=…, http_port=…"),
        (("data", 5), {}, r"start\(\): too many positional arguments; its arguments are data_dir, conf=…"),
        ((), {}, "missing a required argument: 'data_dir'"),
    ],
)
def test_a_wrong_call(arguments: tuple[object, ...], named: dict[str, object], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        start(*arguments, **named)  # type: ignore[arg-type]
