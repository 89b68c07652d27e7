"""Partitioned topics, made by REST."""

import json
import urllib.error
import urllib.request

CONFLICT = 409


def create_topic(admin_url: str, topic: str, partitions: int) -> None:
    """Makes a partitioned topic; fine when it exists with as many partitions. SystemExit when it has others, or cannot
    be made."""
    tenant, namespace, name = ("public/default/" + topic).split("://")[-1].split("/")[-3:]
    url = f"{admin_url}/admin/v2/persistent/{tenant}/{namespace}/{name}/partitions"
    request = urllib.request.Request(url, data=str(partitions).encode(), method="PUT")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30):
            return
    except urllib.error.HTTPError as error:
        with error:
            if error.code != CONFLICT:
                raise SystemExit(f"cannot create topic {topic}: {error.code} {error.read().decode()}") from error
    with urllib.request.urlopen(url, timeout=30) as answer:
        found = json.load(answer)["partitions"]
    if found != partitions:
        raise SystemExit(f"topic {topic} exists with {found} partitions, not {partitions}")
