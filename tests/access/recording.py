"""Records the access matrix of Apache Pulsar: `python -m tests.access.recording` writes `access_matrix.json`."""

import tempfile
from pathlib import Path

from tests.apache_pulsar.start import ApachePulsar, free_ports

from .matrix import asked, save
from .roles import ADMIN, CONFIGURATION, TOKENS

_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


def secured_apache_pulsar(data_dir: Path) -> ApachePulsar:
    """An Apache Pulsar with the configuration of the matrix, not started yet."""
    conf = {
        **CONFIGURATION,
        "brokerClientAuthenticationPlugin": _PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{TOKENS[ADMIN]}",
    }
    return ApachePulsar(data_dir, *free_ports(3), conf, headers={"Authorization": f"Bearer {TOKENS[ADMIN]}"})


def main() -> None:
    """Starts one, asks it, and stops it."""
    with tempfile.TemporaryDirectory() as directory:
        process = secured_apache_pulsar(Path(directory))
        process.start()
        try:
            save(asked(process.service_url, process.admin_url))
        finally:
            process.stop()


if __name__ == "__main__":
    main()
