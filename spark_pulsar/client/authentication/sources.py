"""Sources of secrets: a text, a file or an environment variable; the last two are read anew at every use."""

import json
import os
import urllib.parse
from pathlib import Path
from typing import Final

from spark_pulsar.client.errors import CredentialsError
from spark_pulsar.client.secret import Secret

MAX_SECRET_BYTES: Final = 64 * 1024


def read_source(params: Secret) -> Secret:
    """Returns the secret that `params` is (any text) or names: `file:///path` or `env:NAME`, without the white space
    around it. Raises CredentialsError when there is none."""
    text = params.reveal().strip()
    if text.startswith("file:"):
        return _file(file_path(text))
    if text.startswith("env:"):
        return _variable(text.removeprefix("env:"))
    return Secret(text)


def is_elsewhere(params: Secret) -> bool:
    """Returns whether the secret is in a file or an environment variable, and may not be readable here and now."""
    return params.reveal().strip().startswith(("file:", "env:"))


def file_path(url: str) -> Path:
    """Returns the path of a `file:` URL. Raises ValueError for a relative one: processes differ in their directory."""
    path = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
    if not path.is_absolute():
        raise ValueError(f"{url!r} names no absolute path, such as file:///etc/pulsar/token")
    return path


def parse_params(text: Secret) -> dict[str, str]:
    """Returns the parameters of a plugin, given as a JSON object of texts or as `key:value,key:value`. Raises
    ValueError, which quotes nothing of it."""
    raw = text.reveal().strip()
    if not raw.startswith("{"):
        pairs = [pair.partition(":") for pair in raw.split(",") if pair.strip()]
        if not all(separator for _, separator, _ in pairs):
            raise ValueError("expected a JSON object, or key:value,key:value")
        return {key.strip(): value.strip() for key, _, value in pairs}
    try:
        loaded = json.loads(raw)
    except ValueError:
        loaded = None
    if not isinstance(loaded, dict) or not all(isinstance(value, str) for value in loaded.values()):
        raise ValueError("expected a JSON object whose members are texts") from None
    return loaded


def _file(path: Path) -> Secret:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
        text = data.decode().strip()
    except OSError as error:
        raise CredentialsError(f"credentials cannot be read from {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CredentialsError(f"credentials in {path} are not text") from None
    if not text or len(data) > MAX_SECRET_BYTES:
        raise CredentialsError(f"{path} holds no credentials: {len(data)} bytes (1 to {MAX_SECRET_BYTES} are allowed)")
    return Secret(text)


def _variable(name: str) -> Secret:
    text = os.environ.get(name, "").strip()
    if not text:
        raise CredentialsError(
            f"the environment variable {name!r} with the credentials is not set in this process; on Spark's executors "
            f"spark.executorEnv.{name} sets it"
        )
    return Secret(text)
