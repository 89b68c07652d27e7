"""Apache Pulsar's own WebSocket service, in front of a broker."""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.apache_pulsar.start import HERE, CannotStart, class_path, free_ports
from tests.brokers import Broker
from tests.eventually import eventually


@contextmanager
def websocket_service(broker: Broker, directory: Path) -> Iterator[str]:
    """Runs the service in front of a broker; yields its URL, `http://127.0.0.1:PORT`."""
    if shutil.which("java") is None:
        raise CannotStart("the WebSocket service needs Java 17 or newer: apt-get install -y openjdk-17-jre-headless")
    (port,) = free_ports(1)
    conf = directory / "websocket.conf"
    lines = [
        "clusterName=standalone",
        f"webServicePort={port}",
        f"serviceUrl={broker.admin_url}",
        f"brokerServiceUrl={broker.service_url}",
        "configurationMetadataStoreUrl=",
    ]
    conf.write_text("\n".join(lines) + "\n")
    packages = ("java.base/java.nio", "java.base/jdk.internal.misc", "java.base/sun.net")
    command = ["java", "-Xmx256m", "-Dio.netty.tryReflectionSetAccessible=true"]
    command += [f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}", "-XX:TieredStopAtLevel=1"]
    command += [f"--add-opens={package}=ALL-UNNAMED" for package in packages]
    command += ["-cp", class_path(), "org.apache.pulsar.websocket.service.WebSocketServiceStarter", str(conf)]
    log = directory / "websocket.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as java,
    ):
        url = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert java.poll() is None, f"the service has ended:\n{log.read_text()[-4000:]}"
            try:
                with urllib.request.urlopen(f"{url}/admin/v2/proxy-stats/metrics", timeout=20):
                    return True
            except OSError:
                return False

        try:
            eventually(answers, 120, 0.1)
            yield url
        finally:
            java.terminate()
