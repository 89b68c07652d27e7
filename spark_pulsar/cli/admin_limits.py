"""The set-, get- and remove-commands of limits, of subscription types and of what comes into being by itself."""

from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

import typer

from spark_pulsar.cli.admin_policies import Applied, Disable, Enable, Global, Target, add_get_and_remove
from spark_pulsar.cli.admin_values import show, switched

Subscription = Annotated[
    str | None,
    typer.Option("--subscription", "-s", help="That of one subscription of a topic only."),
]


class Limit(NamedTuple):
    """A limit: word of its commands, path segment, options that `pulsar-admin` gives the number."""

    word: str
    policy: str
    options: tuple[str, str]


OF_NAMESPACES = (
    Limit("max-producers-per-topic", "maxProducersPerTopic", ("--max-producers-per-topic", "-p")),
    Limit("max-consumers-per-topic", "maxConsumersPerTopic", ("--max-consumers-per-topic", "-c")),
    Limit("max-consumers-per-subscription", "maxConsumersPerSubscription", ("--max-consumers-per-subscription", "-c")),
    Limit("max-subscriptions-per-topic", "maxSubscriptionsPerTopic", ("--max-subscriptions-per-topic", "-m")),
    Limit(
        "max-unacked-messages-per-consumer",
        "maxUnackedMessagesPerConsumer",
        ("--max-unacked-messages-per-topic", "-c"),
    ),
    Limit(
        "max-unacked-messages-per-subscription",
        "maxUnackedMessagesPerSubscription",
        ("--max-unacked-messages-per-subscription", "-c"),
    ),
    Limit("max-topics-per-namespace", "maxTopicsPerNamespace", ("--max-topics-per-namespace", "-t")),
)
OF_TOPICS = (
    Limit("max-producers", "maxProducers", ("--max-producers", "-p")),
    Limit("max-consumers", "maxConsumers", ("--max-consumers", "-c")),
    Limit("max-consumers-per-subscription", "maxConsumersPerSubscription", ("--max-consumers-per-subscription", "-c")),
    Limit("max-unacked-messages-per-consumer", "maxUnackedMessagesOnConsumer", ("--maxNum", "-m")),
    Limit("max-unacked-messages-per-subscription", "maxUnackedMessagesOnSubscription", ("--maxNum", "-m")),
    Limit("max-subscriptions-per-topic", "maxSubscriptionsPerTopic", ("--max-subscriptions-per-topic", "-s")),
)


def add_limit_commands(app: typer.Typer, target: Target) -> None:
    """Register them all on a group."""
    for limit in OF_TOPICS if target.is_topic else OF_NAMESPACES:
        _add_limit(app, target, limit)
        add_get_and_remove(app, target, limit.word, limit.policy)
    _add_publish_rate(app, target)
    _add_dispatch_rate(app, target, "dispatch-rate", "dispatchRate", "consumers of a topic are sent messages")
    _add_dispatch_rate(
        app, target, "subscription-dispatch-rate", "subscriptionDispatchRate", "each subscription is sent messages"
    )
    _add_subscribe_rate(app, target)
    _add_types(app, target)
    _add_auto_subscriptions(app, target)
    if not target.is_topic:
        _add_auto_topics(app, target)


def _add_limit(app: typer.Typer, target: Target, limit: Limit) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)
    option: Any = typer.Option(..., *limit.options, help="0 is no limit.")

    @app.command(f"set-{limit.word}", help=f"Set {limit.policy}; 0 is no limit.")
    def set_limit(ctx: typer.Context, name: str = argument, most: int = option, for_all: Global = False) -> None:
        ctx.obj.post(target.of(name, limit.policy), most, **target.query(for_all))


def _add_publish_rate(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command("set-publish-rate")
    def set_rate(
        ctx: typer.Context,
        messages: Annotated[
            int, typer.Option("--msg-publish-rate", "-m", help="Messages a second; -1 is no limit.")
        ] = -1,
        size: Annotated[int, typer.Option("--byte-publish-rate", "-b", help="Bytes a second; -1 is no limit.")] = -1,
        name: str = argument,
        for_all: Global = False,
    ) -> None:
        """Set how fast a topic may be published to."""
        rate = {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": size}
        ctx.obj.post(target.of(name, "publishRate"), rate, **target.query(for_all))

    add_get_and_remove(app, target, "publish-rate", "publishRate")


def _add_dispatch_rate(app: typer.Typer, target: Target, word: str, policy: str, what: str) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command(f"set-{word}", help=f"Set how fast {what}.")
    def set_rate(
        ctx: typer.Context,
        messages: Annotated[
            int, typer.Option("--msg-dispatch-rate", "-md", help="Messages in a period; -1 is no limit.")
        ] = -1,
        size: Annotated[
            int, typer.Option("--byte-dispatch-rate", "-bd", help="Bytes in a period; -1 is no limit.")
        ] = -1,
        period: Annotated[int, typer.Option("--dispatch-rate-period", "-dt", help="The period in seconds.")] = 1,
        relative: Annotated[
            bool, typer.Option("--relative-to-publish-rate", "-rp", help="Beside what is published in a period.")
        ] = False,
        name: str = argument,
        subscription: Subscription = None,
        for_all: Global = False,
    ) -> None:
        rate = {
            "dispatchThrottlingRateInMsg": messages,
            "dispatchThrottlingRateInByte": size,
            "relativeToPublishRate": relative,
            "ratePeriodInSecond": period,
        }
        ctx.obj.post(_rate_path(target, name, policy, subscription), rate, **target.query(for_all))

    @app.command(f"get-{word}", help=f"Show {policy}; null when it is not set.")
    def get(
        ctx: typer.Context,
        name: str = argument,
        subscription: Subscription = None,
        for_all: Global = False,
        applied: Applied = False,
    ) -> None:
        show(ctx.obj.get(_rate_path(target, name, policy, subscription), **target.query(for_all, applied)))

    @app.command(f"remove-{word}", help=f"Remove {policy}, so that what is below it holds.")
    def remove(
        ctx: typer.Context, name: str = argument, subscription: Subscription = None, for_all: Global = False
    ) -> None:
        ctx.obj.delete(_rate_path(target, name, policy, subscription), **target.query(for_all))


def _rate_path(target: Target, name: str, policy: str, subscription: str | None) -> str:
    """Of a rate of all subscriptions, or of one of a topic."""
    if subscription is None:
        return target.of(name, policy)
    if policy != "subscriptionDispatchRate" or not target.is_topic:
        raise typer.BadParameter("--subscription is for the dispatch rate of subscriptions of a topic")
    return target.of(name, f"{quote(subscription, safe='')}/dispatchRate")


def _add_subscribe_rate(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command("set-subscribe-rate")
    def set_rate(
        ctx: typer.Context,
        times: Annotated[int, typer.Option("--subscribe-rate", "-sr", help="Times in a period; -1 is no limit.")] = -1,
        period: Annotated[int, typer.Option("--subscribe-rate-period", "-st", help="The period in seconds.")] = 30,
        name: str = argument,
        for_all: Global = False,
    ) -> None:
        """Set how often one consumer may subscribe to a topic."""
        rate = {"subscribeThrottlingRatePerConsumer": times, "ratePeriodInSecond": period}
        ctx.obj.post(target.of(name, "subscribeRate"), rate, **target.query(for_all))

    add_get_and_remove(app, target, "subscribe-rate", "subscribeRate")


def _add_types(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command("set-subscription-types-enabled")
    def set_types(
        ctx: typer.Context,
        types: Annotated[
            str, typer.Option("--types", "-t", help="Exclusive, Shared, Failover, Key_Shared, by commas.")
        ],
        name: str = argument,
        for_all: Global = False,
    ) -> None:
        """Set which types of subscriptions may be used."""
        ctx.obj.post(target.of(name, "subscriptionTypesEnabled"), types.split(","), **target.query(for_all))

    add_get_and_remove(app, target, "subscription-types-enabled", "subscriptionTypesEnabled")


def _add_auto_subscriptions(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command("set-auto-subscription-creation")
    def set_creation(ctx: typer.Context, name: str = argument, enable: Enable = False, for_all: Global = False) -> None:
        """Set whether subscribing creates a subscription; without --enable it does not."""
        body = {"allowAutoSubscriptionCreation": enable}
        ctx.obj.post(target.of(name, "autoSubscriptionCreation"), body, **target.query(for_all))

    add_get_and_remove(app, target, "auto-subscription-creation", "autoSubscriptionCreation")


def _add_auto_topics(app: typer.Typer, target: Target) -> None:
    argument: Any = typer.Argument(metavar=target.metavar)

    @app.command("set-auto-topic-creation")
    def set_creation(
        ctx: typer.Context,
        name: str = argument,
        enable: Enable = False,
        disable: Disable = False,
        kind: Annotated[str | None, typer.Option("--type", "-t", help="partitioned or non-partitioned.")] = None,
        partitions: Annotated[int | None, typer.Option("--num-partitions", "-n")] = None,
    ) -> None:
        """Set whether using a topic creates it, and with how many partitions."""
        wanted = {
            "allowAutoTopicCreation": switched(enable, disable),
            "topicType": kind,
            "defaultNumPartitions": partitions,
        }
        body = {key: value for key, value in wanted.items() if value is not None}
        ctx.obj.post(target.of(name, "autoTopicCreation"), body)

    add_get_and_remove(app, target, "auto-topic-creation", "autoTopicCreation")
