"""Access of the command line as options of the connector, for commands that read topics as tables."""

from __future__ import annotations

from typing import Final

import typer

from spark_pulsar.cli.access.access import Access, broker_access
from spark_pulsar.cli.access.options import AccessOptions

TIMEOUT_MS: Final = 10_000
"""Time-out of an operation: who waits at a terminal is not a job."""


def connector_access(options: AccessOptions) -> tuple[str, dict[str, str]]:
    """Returns the service URL, and the connector's options for credentials, TLS and listener that `options`, a profile,
    variables or `client.conf` give (SEC-82). Raises typer.BadParameter."""
    access = broker_access(options)
    if not access.url.startswith(("pulsar://", "pulsar+ssl://")):
        raise typer.BadParameter(
            f"tables are read over pulsar:// or pulsar+ssl://, which {access.url} is not", param_hint="--service-url"
        )
    return access.url, {"operationTimeoutMs": str(TIMEOUT_MS)} | _client_options(access)


def _client_options(access: Access) -> dict[str, str]:
    from spark_pulsar.connector.options import security as names

    given = {
        names.PLUGIN: access.authentication.plugin,
        names.PARAMS: access.authentication.params.reveal(),
        names.LISTENER: access.listener_name,
    }
    if access.uses_tls:
        tls = access.tls
        given |= {
            names.TRUST: tls.trust_certs_file_path,
            names.INSECURE: "true" if tls.allow_insecure_connection else "",
            names.VERIFY_HOST: "" if tls.hostname_verification_enable else "false",
            names.CERTIFICATE: tls.certificate_file_path,
            names.KEY: tls.key_file_path,
        }
    return {name: value for name, value in given.items() if value}
