"""The access matrix as data: for each action and role the status and text of the refusal, or that it was let in."""

import json
from pathlib import Path
from typing import Final

from . import command_cells, rest_cells
from .command_cells import LET_IN
from .roles import Rest, set_up

RECORDED: Final = Path(__file__).with_name("access_matrix.json")
ROLE: Final = "ROLE"
"""Stands in texts for the role that is refused, as `BROKER` for the address of the broker."""

Matrix = dict[str, dict[str, str]]
"""Answers by action (`METHOD /route`, or command and resource) and role."""


def asked(service_url: str, admin_url: str) -> Matrix:
    """Asks a broker for every cell."""
    rest = Rest(admin_url)
    try:
        set_up(rest)
        matrix: Matrix = {}
        for name, resource, role, answer in command_cells.asked(service_url):
            matrix.setdefault(f"{name} {resource}", {})[role] = answer
        for cell, role, status, text in rest_cells.asked(rest):
            answer = _told(status, text, role, admin_url)
            matrix.setdefault(cell.name, {})[role] = answer
        return matrix
    finally:
        rest.close()


def _told(status: int, text: str, role: str, admin_url: str) -> str:
    if status not in (401, 403):
        return LET_IN
    if text.startswith("<html>") or not text:
        return f"{status}"  # of the servlet container, for requests without credentials
    address = admin_url.partition("://")[2]
    return f"{status} {text.replace(f'[{role}]', f'[{ROLE}]').replace(address, 'BROKER')}"


def saved() -> Matrix:
    """The matrix of Apache Pulsar, as it was recorded."""
    found = json.loads(RECORDED.read_text())
    return {
        action: {role: answer for answer, roles in by_answer.items() for role in roles}
        for action, by_answer in found.items()
    }


def save(matrix: Matrix) -> None:
    """Writes the matrix with the roles of each answer together."""
    grouped: dict[str, dict[str, list[str]]] = {}
    for action, by_role in matrix.items():
        for role, answer in by_role.items():
            grouped.setdefault(action, {}).setdefault(answer, []).append(role)
    lines = ",\n".join(f"{json.dumps(action)}: {json.dumps(answers)}" for action, answers in grouped.items())
    RECORDED.write_text(f"{{\n{lines}\n}}\n")
