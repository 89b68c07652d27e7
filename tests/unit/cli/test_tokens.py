"""`spark-pulsar tokens`: keys, tokens, and those that Apache Pulsar's own tool made."""

import base64
import json
import stat
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from typer.testing import CliRunner, Result

from spark_pulsar.cli.main import app
from spark_pulsar.client.clock import wall_ms

# Made by `pulsar tokens` of Apache Pulsar 4.0.8: create-secret-key, create-key-pair -a ES256, create -s spark.
SECRET = "data:;base64,VP5dLPU2x89fLBe+3CmdZVoIEBZrjTfYUI6hfX6P5Qo="
SIGNED = "eyJraWQiOiJvbmUiLCJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJzcGFyayJ9.KEKDlsUhMj-6UmefVu1ZXM90MXrQj7Nc2Im86eohU3Q"
EXPIRED = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJzcGFyayIsImV4cCI6MTc5NTQ3MDk1OX0.UgYqVXd0i3yjndFhykaPAF8-STmbcbdHoXkf-z6fLNY"
PUBLIC = (
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEavZTJubBIkuhnaZczDK9UNcLmavBCIuHL6924tOlHU/k1rcPpv9UDXsQ9tYJkZZyfU5Wr3+IDmPK"
    "omRIQyX0jA=="
)
SIGNED_BY_PAIR = (
    "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzcGFyayJ9.TFGZlKQzSKWdUFqI2dSJOeCyceQUbvKImeXckTJ92Zwjm1fu3R351xKnKckbubcmm506-o-"
    "InJjVJGKFqNe6sw"
)


def run(*words: str | Path, stdin: str | None = None, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, ["tokens", *map(str, words)], input=stdin, env=env)


def said(*words: str | Path, stdin: str | None = None, env: dict[str, str] | None = None) -> str:
    done = run(*words, stdin=stdin, env=env)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout.strip()


def refusal(*words: str | Path) -> str:
    done = run(*words)
    assert (done.exit_code, done.stdout) == (1, "")
    return done.stderr


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.key"
    assert said("create-secret-key", "-o", path) == ""
    return path


def test_what_the_tool_of_apache_pulsar_made_is_accepted() -> None:
    # covers SEC-80, SEC-81
    assert said("validate", "-sk", SECRET, SIGNED) == "{sub=spark}"
    assert said("validate", "-pk", PUBLIC, "-a", "ES256", SIGNED_BY_PAIR) == "{sub=spark}"
    assert said("show", SIGNED) == '{"kid":"one","alg":"HS256"}\n---\n{"sub":"spark"}'
    shown = {"header": {"kid": "one", "alg": "HS256"}, "claims": {"sub": "spark"}}
    assert json.loads(said("show", SIGNED, "-o", "json")) == shown
    assert "not valid: Signature has expired" in refusal("validate", "-sk", SECRET, EXPIRED)


@pytest.mark.parametrize(("algorithm", "length"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
def test_a_secret_key(tmp_path: Path, algorithm: str, length: int) -> None:
    # covers SEC-80, SEC-81
    path = tmp_path / "key"
    said("create-secret-key", "-a", algorithm, "--output", path)
    assert (path.stat().st_size, stat.S_IMODE(path.stat().st_mode)) == (length, 0o600)
    token = said("create", "--secret-key", path, "--subject", "me")
    assert jwt.get_unverified_header(token) == {"alg": algorithm}
    assert said("validate", "-sk", path.as_uri(), token) == "{sub=me}"


def test_a_secret_key_on_standard_output() -> None:
    assert len(base64.b64decode(said("create-secret-key", "-b"), validate=True)) == 32
    assert len(run("create-secret-key").stdout_bytes) == 32


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "ES512"])
def test_a_key_pair(tmp_path: Path, algorithm: str) -> None:
    # covers SEC-80
    private, public = tmp_path / "private", tmp_path / "public"
    said("create-key-pair", "-a", algorithm, "--output-private-key", private, "--output-public-key", public)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(public.stat().st_mode) in (0o600, 0o644)  # by the umask
    in_text = f"data:;base64,{base64.b64encode(private.read_bytes()).decode()}"
    token = said("create", "-pk", in_text, "-a", algorithm, "-s", "me")
    assert said("validate", "-pk", public, "-a", algorithm, token) == "{sub=me}"


def test_a_key_pair_in_pem_form(tmp_path: Path) -> None:
    key = generate_private_key(public_exponent=65537, key_size=2048)
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert said("validate", "-pk", public, said("create", "-pk", private, "-s", "me")) == "{sub=me}"


def test_a_key_is_never_overwritten(tmp_path: Path, secret: Path) -> None:
    # covers SEC-80
    before = secret.read_bytes()
    assert "secret.key exists" in refusal("create-secret-key", "-o", secret)
    pair = ("create-key-pair", "--output-private-key", tmp_path / "private", "--output-public-key", secret)
    assert "secret.key exists" in refusal(*pair)
    assert secret.read_bytes() == before
    assert not (tmp_path / "private").exists()


def test_the_time_until_it_expires_and_headers(secret: Path) -> None:
    token = said("create", "-sk", secret, "-s", "me", "-e", "3w", "-hs", "kid=a", "--headers", "x=y")
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "kid": "a", "x": "y"}
    claims = jwt.decode(token, secret.read_bytes(), algorithms=["HS256"])
    assert 0 <= wall_ms() // 1000 + 3 * 7 * 86_400 - claims["exp"] < 60
    assert said("validate", "-sk", secret, token) == f"{{sub=me, exp={claims['exp']}}}"


def test_places_of_a_token(tmp_path: Path, secret: Path) -> None:
    token = said("create", "-sk", secret, "-s", "me")
    path = tmp_path / "token"
    path.write_text(f"{token}\n")
    for command in (("validate", "-sk", secret), ("show",)):
        seen = {
            said(*command, token),
            said(*command, "-f", path),
            said(*command, "--token-file", path),
            said(*command, "-i", stdin=f"{token}\n"),
            said(*command, env={"TOKEN": token}),
        }
        assert len(seen) == 1
        assert "`TOKEN` environment variable" in refusal(*command)


def test_a_token_of_somebody_else(tmp_path: Path, secret: Path) -> None:
    # covers SEC-81
    assert "not valid: Signature verification failed" in refusal("validate", "-sk", secret, SIGNED)
    assert "not signed by an algorithm of this key" in refusal("validate", "-sk", secret, SIGNED_BY_PAIR)
    unsigned = jwt.encode({"sub": "me"}, None, algorithm="none")
    assert "not signed by an algorithm of this key" in refusal("validate", "-sk", secret, unsigned)
    # The public key, which all know, is no secret to sign with.
    forged = jwt.encode({"sub": "me"}, base64.b64encode(b"x" * 32), algorithm="HS256")
    assert "not signed by an algorithm" in refusal("validate", "-pk", PUBLIC, "-a", "ES256", forged)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("create-secret-key -a RS256", "--signature-algorithm RS256 has no secret key"),
        ("create-key-pair -a HS256 --output-private-key a --output-public-key b", "HS256 has no key pair"),
        ("create -s me", "Either --secret-key or --private-key needs to be passed"),
        ("create -s me -sk a -pk b", "Only one of --secret-key and --private-key"),
        ("create -s me -sk no/such.key", "there is no such file, and it is no base64"),
        ("create -s me -sk file:///no/such.key", "--secret-key: cannot read /no/such.key: No such file"),
        ("create -s me -sk data:;base64,abc", "--secret-key: want the path of a key"),
        ("create -s me -sk data:,abc", "the key has 24 bits; 256 or more are needed"),
        ("create -s me -pk data:,abc", "--private-key: no such key in DER or PEM form"),
        (f"create -s me -sk {SECRET} -e -1", "--expiry-time -1: expected a time from now on"),
        (f"create -s me -sk {SECRET} -hs alg=none", "--headers alg: this header is made from the key"),
        (f"validate {SIGNED}", "Either --secret-key or --public-key"),
        (f"validate {SIGNED} -pk {PUBLIC}", "the key is not one of RS256: give --signature-algorithm ES256"),
        (f"validate -sk {SECRET} nonsense", "the token is not valid"),
        ("show nonsense", "the text is no token"),
    ],
)
def test_refusals_are_one_line(words: str, said: str) -> None:
    text = refusal(*words.split())
    assert said in text
    assert text.count("\n") == 1
    assert "VP5dLPU2" not in text
