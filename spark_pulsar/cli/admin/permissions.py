"""Commands of permissions: of roles in a namespace or with a topic, and of a namespace's subscriptions."""

from collections.abc import Iterator
from typing import Final

from spark_pulsar.cli.admin.command import Command
from spark_pulsar.model.policies.permissions import ACTIONS, AUTH_MODES
from spark_pulsar.model.policies.policy_columns import Option, Written

_NAMESPACE: Final = "/admin/v2/namespaces/{namespace}"
_OF_SUBSCRIPTIONS: Final = f"{_NAMESPACE}/permissions/subscription"
_ROLE: Final = Option("role", "--role -r", Written.TEXT, "Role of a client.")


def _of(group: str, path: str, names: tuple[str, str], noun: str) -> Iterator[Command]:
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


COMMANDS: Final = (
    *_of("topics", "/admin/v2/{topic}", ("grant-permissions", "revoke-permissions"), "a topic"),
    *_of("namespaces", _NAMESPACE, ("grant-permission", "revoke-permission"), "a namespace"),
    Command(
        "namespaces subscription-permission",
        "GET",
        _OF_SUBSCRIPTIONS,
        "Show the roles that alone may use a subscription.",
    ),
    Command(
        "namespaces grant-subscription-permission",
        "POST",
        f"{_OF_SUBSCRIPTIONS}/{{subscription}}",
        "Let these roles alone use a subscription.",
        body=(Option("", "--roles -rs", Written.WORDS, "Roles by commas."),),
    ),
    Command(
        "namespaces revoke-subscription-permission",
        "DELETE",
        f"{_NAMESPACE}/permissions/{{subscription}}/{{role}}",
        "Take a role away from those that may use a subscription.",
        placed=(_ROLE,),
    ),
    Command(
        "namespaces get-subscription-auth-mode",
        "GET",
        f"{_NAMESPACE}/subscriptionAuthMode",
        "Show the rule for names of subscriptions.",
    ),
    Command(
        "namespaces set-subscription-auth-mode",
        "POST",
        f"{_NAMESPACE}/subscriptionAuthMode",
        "Set the rule for names of subscriptions.",
        body=(Option("", "--subscription-auth-mode -m", Written.TEXT, f"{' or '.join(AUTH_MODES)}, the role."),),
    ),
)
