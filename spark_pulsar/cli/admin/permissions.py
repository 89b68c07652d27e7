"""Commands of permissions: of roles in a namespace or with a topic, and of a namespace's subscriptions."""

from collections.abc import Callable
from typing import Annotated

import typer

from spark_pulsar.cli.values import namespace_path, segment, show, topic_path
from spark_pulsar.model.permissions import ACTIONS, AUTH_MODES

Role = Annotated[str, typer.Option("--role", "-r", help="Role of a client.")]
Actions = Annotated[str, typer.Option("--actions", "-a", help=f"By commas: {', '.join(ACTIONS)}.")]
Subscription = Annotated[str, typer.Option("--subscription", "-s", help="Subscription.")]
_NAMESPACE = typer.Argument(metavar="NAMESPACE", help="tenant/namespace")
_TOPIC = typer.Argument(metavar="TOPIC", help="Short (public/default) or full name.")


def add_topic_commands(app: typer.Typer) -> None:
    """Adds the commands of permissions with a topic."""
    _add(app, _TOPIC, topic_path, ("grant-permissions", "revoke-permissions"), "a topic")


def add_namespace_commands(app: typer.Typer) -> None:
    """Adds the commands of permissions of a namespace and its subscriptions."""
    _add(app, _NAMESPACE, namespace_path, ("grant-permission", "revoke-permission"), "a namespace")

    @app.command("subscription-permission", help="Show the roles that alone may use a subscription.")
    def of_subscriptions(ctx: typer.Context, namespace: str = _NAMESPACE) -> None:
        show(ctx.obj.get(f"{namespace_path(namespace)}/permissions/subscription"))

    @app.command("grant-subscription-permission", help="Let these roles alone use a subscription.")
    def grant_subscription(
        ctx: typer.Context,
        subscription: Subscription,
        roles: Annotated[str, typer.Option("--roles", "-rs", help="Roles by commas.")],
        namespace: str = _NAMESPACE,
    ) -> None:
        path = f"{namespace_path(namespace)}/permissions/subscription/{segment(subscription)}"
        ctx.obj.post(path, roles.split(","))

    @app.command("revoke-subscription-permission", help="Take a role away from those that may use a subscription.")
    def revoke_subscription(
        ctx: typer.Context, subscription: Subscription, role: Role, namespace: str = _NAMESPACE
    ) -> None:
        ctx.obj.delete(f"{namespace_path(namespace)}/permissions/{segment(subscription)}/{segment(role)}")

    @app.command("get-subscription-auth-mode", help="Show the rule for names of subscriptions.")
    def get_auth_mode(ctx: typer.Context, namespace: str = _NAMESPACE) -> None:
        show(ctx.obj.get(f"{namespace_path(namespace)}/subscriptionAuthMode"))

    @app.command("set-subscription-auth-mode", help="Set the rule for names of subscriptions.")
    def set_auth_mode(
        ctx: typer.Context,
        mode: Annotated[
            str,
            typer.Option("--subscription-auth-mode", "-m", help=f"{' or '.join(AUTH_MODES)}, the role."),
        ],
        namespace: str = _NAMESPACE,
    ) -> None:
        ctx.obj.post(f"{namespace_path(namespace)}/subscriptionAuthMode", mode)


def _add(app: typer.Typer, argument: str, path: Callable[[str], str], names: tuple[str, str], noun: str) -> None:
    grant_name, revoke_name = names

    @app.command("permissions", help=f"Show the actions of each role with {noun}.")
    def permissions(ctx: typer.Context, name: str = argument) -> None:
        show(ctx.obj.get(f"{path(name)}/permissions"))

    @app.command(grant_name, help=f"Grant a role actions with {noun}, in place of those that it had.")
    def grant(ctx: typer.Context, role: Role, actions: Actions, name: str = argument) -> None:
        ctx.obj.post(f"{path(name)}/permissions/{segment(role)}", actions.split(","))

    @app.command(revoke_name, help=f"Take all actions with {noun} away from a role.")
    def revoke(ctx: typer.Context, role: Role, name: str = argument) -> None:
        ctx.obj.delete(f"{path(name)}/permissions/{segment(role)}")
