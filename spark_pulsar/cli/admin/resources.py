"""`spark-pulsar admin resourcegroups` and `resource-quotas`, and the resource groups of namespaces."""

from typing import Annotated, Any, Final

import typer

from spark_pulsar.cli.admin.command import rows
from spark_pulsar.cli.values import namespace_path, segment
from spark_pulsar.model.policies.policy_columns import Option, Written
from spark_pulsar.model.policies.resource_groups import DEFAULT_QUOTA

_GROUPS: Final = "/admin/v2/resourcegroups"
_QUOTAS: Final = "/admin/v2/resource-quotas"
_QUOTA: Final = f"{_QUOTAS}/{{namespace}}/{{bundle}}"
_RATES: Final = (
    Option("publishRateInMsgs", "--msg-publish-rate -mp", Written.NUMBER, "Messages a second; -1: no limit.", None),
    Option("publishRateInBytes", "--byte-publish-rate -bp", Written.NUMBER, "Bytes a second; -1: no limit.", None),
    Option("dispatchRateInMsgs", "--msg-dispatch-rate -md", Written.NUMBER, "Stored, without effect.", None),
    Option("dispatchRateInBytes", "--byte-dispatch-rate -bd", Written.NUMBER, "Stored, without effect.", None),
)
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="tenant/namespace; the default quota when not given.")
]
Bundle = Annotated[str | None, typer.Option("--bundle", "-b", help="0xLOW_0xHIGH, with --namespace.")]


def _path(namespace: str | None, bundle: str | None) -> str:
    if (namespace is None) != (bundle is None):
        raise typer.BadParameter("want --namespace and --bundle, or neither for the default quota")
    if namespace is None or bundle is None:
        return _QUOTAS
    return f"{_QUOTAS}/{namespace_path(namespace).removeprefix('/admin/v2/namespaces/')}/{segment(bundle)}"


def _get(ctx: typer.Context, namespace: Namespace = None, bundle: Bundle = None) -> Any:
    return ctx.obj.get(_path(namespace, bundle))


def _reset(
    ctx: typer.Context,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="tenant/namespace")],
    bundle: Annotated[str, typer.Option("--bundle", "-b", help="0xLOW_0xHIGH")],
) -> None:
    ctx.obj.delete(_path(namespace, bundle))


def _set(
    ctx: typer.Context,
    rate_in: Annotated[float, typer.Option("--msgRateIn", "-mi", help="Messages that come, per second.")],
    rate_out: Annotated[float, typer.Option("--msgRateOut", "-mo", help="Messages that go, per second.")],
    bandwidth_in: Annotated[float, typer.Option("--bandwidthIn", "-bi", help="Bytes that come, per second.")],
    bandwidth_out: Annotated[float, typer.Option("--bandwidthOut", "-bo", help="Bytes that go, per second.")],
    memory: Annotated[float, typer.Option("--memory", "-mem", help="Memory in MB.")],
    namespace: Namespace = None,
    bundle: Bundle = None,
    dynamic: Annotated[bool, typer.Option("--dynamic", "-d", help="It may be calculated anew from the use.")] = False,
) -> None:
    values = (rate_in, rate_out, bandwidth_in, bandwidth_out, memory, dynamic)
    ctx.obj.post(_path(namespace, bundle), dict(zip(DEFAULT_QUOTA, values, strict=True)))


_resourcegroups: Final = rows("resourcegroups", "/admin/v2")
_namespaces: Final = rows("namespaces", "/admin/v2/namespaces/{namespace}")
_resource_quotas: Final = rows("resource-quotas", "/admin/v2")

COMMANDS: Final = (
    _resourcegroups("list", "GET /resourcegroups", "List the resource groups."),
    _resourcegroups("get", "GET /resourcegroups/{group}", "Show the rates of a resource group."),
    _resourcegroups("create", "PUT /resourcegroups/{group}", "Create a resource group.", body=_RATES),
    _resourcegroups("update", "PUT /resourcegroups/{group}", "Change rates of a resource group.", body=_RATES),
    _resourcegroups("delete", "DELETE /resourcegroups/{group}", "Delete a resource group that no namespace has."),
    _namespaces("get-resource-group", "GET /resourcegroup", "Show the resource group of a namespace."),
    _namespaces(
        "set-resource-group",
        "POST /resourcegroup/{group_name}",
        "Let the topics of a namespace share the rates of a resource group.",
        placed=(Option("group_name", "--resource-group-name -rgn", Written.TEXT, "Name of the resource group."),),
    ),
    _namespaces("remove-resource-group", "DELETE /resourcegroup", "Take a namespace out of its resource group."),
    _resource_quotas(
        "get",
        "GET /resource-quotas",
        "Show the resource quota of a bundle, or the default one.",
        work=_get,
        also=(("GET", _QUOTA),),
    ),
    _resource_quotas(
        "set",
        "POST /resource-quotas",
        "Set the resource quota of a bundle, or the default one; it has no effect in this broker.",
        work=_set,
        also=(("POST", _QUOTA),),
    ),
    _resource_quotas(
        "reset-namespace-bundle-quota",
        "DELETE /resource-quotas/{namespace}/{bundle}",
        "Let the default quota hold for a bundle again.",
        work=_reset,
    ),
)
