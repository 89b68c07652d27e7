"""Commands of permissions: of roles in a namespace or with a topic, and of a namespace's subscriptions."""

from collections.abc import Iterator
from typing import Final

from spark_pulsar.cli.admin.command import Command, rows
from spark_pulsar.model.policies.permissions import ACTIONS, AUTH_MODES
from spark_pulsar.model.policies.policy_columns import Option, Written

_NAMESPACE: Final = "/admin/v2/namespaces/{namespace}"
_ROLE: Final = Option("role", "--role -r", Written.TEXT, "Role of a client.")


def _permission_commands(group: str, path: str, names: tuple[str, str], noun: str) -> Iterator[Command]:
    """Yields the commands of the permissions of roles."""
    yield Command(
        f"{group} permissions",
        "GET",
        f"{path}/permissions",
        f"Show the actions of each role with {noun}.",
    )
    yield Command(
        f"{group} {names[0]}",
        "POST",
        f"{path}/permissions/{{role}}",
        f"Grant a role actions with {noun}, in place of those that it had.",
        placed=(_ROLE,),
        body=(Option("", "--actions -a", Written.WORDS, f"By commas: {', '.join(ACTIONS)}."),),
    )
    yield Command(
        f"{group} {names[1]}",
        "DELETE",
        f"{path}/permissions/{{role}}",
        f"Take all actions with {noun} away from a role.",
        placed=(_ROLE,),
    )


_namespaces: Final = rows("namespaces", "/admin/v2/namespaces/{namespace}")

COMMANDS: Final = (
    *_permission_commands("topics", "/admin/v2/{topic}", ("grant-permissions", "revoke-permissions"), "a topic"),
    *_permission_commands("namespaces", _NAMESPACE, ("grant-permission", "revoke-permission"), "a namespace"),
    _namespaces(
        "subscription-permission", "GET /permissions/subscription", "Show the roles that alone may use a subscription."
    ),
    _namespaces(
        "grant-subscription-permission",
        "POST /permissions/subscription/{subscription}",
        "Let these roles alone use a subscription.",
        body=(Option("", "--roles -rs", Written.WORDS, "Roles by commas."),),
    ),
    _namespaces(
        "revoke-subscription-permission",
        "DELETE /permissions/{subscription}/{role}",
        "Take a role away from those that may use a subscription.",
        placed=(_ROLE,),
    ),
    _namespaces("get-subscription-auth-mode", "GET /subscriptionAuthMode", "Show the rule for names of subscriptions."),
    _namespaces(
        "set-subscription-auth-mode",
        "POST /subscriptionAuthMode",
        "Set the rule for names of subscriptions.",
        body=(Option("", "--subscription-auth-mode -m", Written.TEXT, f"{' or '.join(AUTH_MODES)}, the role."),),
    ),
)
