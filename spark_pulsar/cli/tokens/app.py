"""`spark-pulsar tokens`: keys and tokens, with the commands, options, outputs and files of `pulsar tokens` (SEC-80)."""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, ParamSpec

import typer

from spark_pulsar.cli.frame.help import Commands, examples
from spark_pulsar.cli.output.formats import Output
from spark_pulsar.cli.output.formats import show as show_value
from spark_pulsar.cli.tokens import keys as tokens_keys
from spark_pulsar.cli.tokens.keys import CannotUseKey
from spark_pulsar.cli.values import pairs, time_s

app = Commands(
    epilog=examples("tokens create-secret-key -o secret.key", "tokens create -sk secret.key -s orders-service"),
    name="spark-pulsar tokens",
    help="Keys and tokens, as `pulsar tokens` makes them.",
    pretty_exceptions_enable=False,
    add_completion=False,
)
_PLACE: Final = "data:;base64,KEY, file:///PATH, or the path of a file."
_ALGORITHM: Final = typer.Option("--signature-algorithm", "-a", help="Algorithm of the signature.")
SecretKey = Annotated[str | None, typer.Option("--secret-key", "-sk", help=f"Secret key: {_PLACE}")]
PrivateKey = Annotated[str | None, typer.Option("--private-key", "-pk", help=f"Private key: {_PLACE}")]
PublicKey = Annotated[str | None, typer.Option("--public-key", "-pk", help=f"Public key: {_PLACE}")]
TokenArgument = Annotated[str | None, typer.Argument(metavar="TOKEN", envvar="TOKEN", show_envvar=False)]
Stdin = Annotated[bool, typer.Option("--stdin", "-i", help="Read the token from standard input.")]
TokenFile = Annotated[Path | None, typer.Option("--token-file", "-f", help="Read the token from a file.")]
_PAIR: Final = "--output-private-key private.key --output-public-key public.key"
MAX_TOKEN_BYTES: Final = 64 * 1024
_RESERVED_HEADERS: Final = ("alg", "b64", "crit")
P = ParamSpec("P")


class Algorithm(StrEnum):
    """Algorithms of signatures, those of secret keys first."""

    HS256 = "HS256"
    HS384 = "HS384"
    HS512 = "HS512"
    RS256 = "RS256"
    RS384 = "RS384"
    RS512 = "RS512"
    PS256 = "PS256"
    PS384 = "PS384"
    PS512 = "PS512"
    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except CannotUseKey as error:
        typer.echo(f"spark-pulsar tokens: {error}", err=True)
        raise typer.Exit(1) from error


def _command(name: str, *lines: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Makes a command with these examples, whose errors are one line on standard error, with status 1."""

    def decorated(work: Callable[P, None]) -> Callable[P, None]:
        @app.command(name, epilog=examples(*(f"tokens {name} {line}".rstrip() for line in lines)))
        @wraps(work)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            with _one_line():
                work(*args, **kwargs)

        return run

    return decorated


@_command("create-secret-key", "-o secret.key", "-a HS512 -b")
def create_secret_key(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the key to a new file instead of standard output.")
    ] = None,
    in_base64: Annotated[bool, typer.Option("--base64", "-b", help="Write the key in base64.")] = False,
    algorithm: Annotated[Algorithm, _ALGORITHM] = Algorithm.HS256,
) -> None:
    """Create a secret key, which signs tokens and validates them."""
    key = tokens_keys.new_secret_key(algorithm)
    data = base64.b64encode(key) if in_base64 else key
    if output is not None:
        tokens_keys.write_secret_file(output, data)
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()


@_command("create-key-pair", _PAIR, f"{_PAIR} -a ES256")
def create_key_pair(
    private: Annotated[Path, typer.Option("--output-private-key", help="New file of the private key.")],
    public: Annotated[Path, typer.Option("--output-public-key", help="New file of the public key.")],
    algorithm: Annotated[Algorithm, _ALGORITHM] = Algorithm.RS256,
) -> None:
    """Create a private key, which signs tokens, and a public key, which validates them."""
    tokens_keys.check_new(private, public)
    private_key, public_key = tokens_keys.new_key_pair(algorithm)
    tokens_keys.write_secret_file(private, private_key)
    tokens_keys.write_public_file(public, public_key)


@_command("create", "-sk secret.key -s orders-service -e 30d", "-pk private.key -a RS256 -s orders-service")
def create(
    subject: Annotated[str, typer.Option("--subject", "-s", help="Role of the token's bearer.")],
    secret_key: SecretKey = None,
    private_key: PrivateKey = None,
    algorithm: Annotated[
        Algorithm, typer.Option("--signature-algorithm", "-a", help="Algorithm of the key pair.")
    ] = Algorithm.RS256,
    expiry_time: Annotated[
        str | None,
        typer.Option(
            "--expiry-time", "-e", help="Time until the token expires: 30s, 10m, 1h, 3d, 3w, 5y. Never if not given."
        ),
    ] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--headers", "-hs", metavar="NAME=VALUE", help="A header; may be repeated.")
    ] = None,
) -> None:
    """Create a token for a role."""
    _want_one(secret_key, private_key, "--private-key", "signing")
    if not subject:
        raise CannotUseKey("--subject: expected the name of a role")
    more = pairs(headers, "--headers")
    if taken := [name for name in _RESERVED_HEADERS if name in more]:
        raise CannotUseKey(f"--headers {taken[0]}: this header is made from the key")
    key: Any
    if secret_key is not None:
        key = tokens_keys.read_key(secret_key, "--secret-key")
        signed_by = tokens_keys.algorithm_of_secret(key, "--secret-key")
    else:
        assert private_key is not None
        key = tokens_keys.private_key(tokens_keys.read_key(private_key, "--private-key"), algorithm)
        signed_by = str(algorithm)
    typer.echo(
        tokens_keys.make_token(subject, key, signed_by, None if expiry_time is None else _lifetime_s(expiry_time), more)
    )


def _lifetime_s(text: str) -> int:
    lifetime_s = time_s(text)
    if lifetime_s < 0:
        raise CannotUseKey(f"--expiry-time {text}: expected a time from now on, such as 1h, 3w or 5y")
    return lifetime_s


@_command("validate", "-sk secret.key -f orders.token", "-pk public.key -a RS256 -f orders.token")
def validate(
    token: TokenArgument = None,
    secret_key: SecretKey = None,
    public_key: PublicKey = None,
    algorithm: Annotated[
        Algorithm, typer.Option("--signature-algorithm", "-a", help="Algorithm of the key pair.")
    ] = Algorithm.RS256,
    stdin: Stdin = False,
    token_file: TokenFile = None,
) -> None:
    """Check signature and expiry of a token, and print its claims."""
    text = _token(token, stdin, token_file)
    _want_one(secret_key, public_key, "--public-key", "validating")
    key: Any
    if secret_key is not None:
        key = tokens_keys.read_key(secret_key, "--secret-key")
        tokens_keys.algorithm_of_secret(key, "--secret-key")
        allowed = [name for name, length in tokens_keys.SECRET_KEY_BYTES.items() if len(key) >= length]
    else:
        assert public_key is not None
        key = tokens_keys.public_key(tokens_keys.read_key(public_key, "--public-key"), algorithm)
        allowed = list(tokens_keys.RSA_KEY_BITS) if algorithm in tokens_keys.RSA_KEY_BITS else [str(algorithm)]
    typer.echo(_java_text(_validated(text, key, allowed)))


def _validated(text: str, key: Any, algorithms: list[str]) -> dict[str, Any]:
    """Returns the claims of a token that is signed by one of the algorithms of the key, and has not expired
    (SEC-81)."""
    with tokens_keys.needing_security():
        import jwt
    try:
        # As Apache Pulsar's tool: audience and time of issue are for the broker to judge.
        options: Any = {"verify_aud": False, "verify_iat": False, "verify_sub": False, "verify_jti": False}
        return jwt.decode(text, key, algorithms=algorithms, options=options)
    except jwt.InvalidAlgorithmError as error:
        raise CannotUseKey(f"the token is not signed by an algorithm of this key ({', '.join(algorithms)})") from error
    except jwt.PyJWTError as error:
        raise CannotUseKey(f"the token is not valid: {error}") from error


@_command("show", "-f orders.token", "-f orders.token -o json")
def show(
    token: TokenArgument = None, stdin: Stdin = False, token_file: TokenFile = None, output: Output = None
) -> None:
    """Print header and claims of a token, without checking its signature."""
    parts = _token(token, stdin, token_file).split(".")
    try:
        if len(parts) != 3:
            raise ValueError
        header, claims = (base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode() for part in parts[:2])
        value = {"header": json.loads(header), "claims": json.loads(claims)}
    except (ValueError, binascii.Error) as error:
        raise CannotUseKey("the text is no token: expected HEADER.CLAIMS.SIGNATURE") from error
    if output is None:
        typer.echo(f"{header}\n---\n{claims}")  # as Apache Pulsar's tool
    else:
        show_value(value, output)


def _token(argument: str | None, stdin: bool, file: Path | None) -> str:
    if stdin:
        text = sys.stdin.read(MAX_TOKEN_BYTES)
    elif file is not None:
        try:
            with file.open("rb") as opened:
                text = opened.read(MAX_TOKEN_BYTES).decode(errors="replace")
        except OSError as error:
            raise CannotUseKey(f"--token-file: {file} cannot be read: {error.strerror}") from error
    elif argument is not None:
        text = argument
    else:
        raise CannotUseKey(
            "Token needs to be either passed as an argument or through `--stdin`, `--token-file` or by the `TOKEN` "
            "environment variable"
        )
    return text.strip()


def _want_one(secret: str | None, other: str | None, name: str, use: str) -> None:
    if secret is None and other is None:
        raise CannotUseKey(f"Either --secret-key or {name} needs to be passed for {use} a token")
    if secret is not None and other is not None:
        raise CannotUseKey(f"Only one of --secret-key and {name} needs to be passed for {use} a token")


def _java_text(value: Any) -> str:
    """Writes a claim as Java prints it, since `pulsar tokens validate` does."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={_java_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_java_text(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
