"""Options of encrypted messages: names, places of keys, actions."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from spark_pulsar.client.encryption.key_files import KeyFiles
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ, STREAM_WRITE


def parse(**options: Any) -> Options:
    return parse_options({"service.url": "pulsar://h:1", "topic": "t", **options})


def test_names_and_places() -> None:
    options = parse(encryptionKeys="a, b,a", encryptionPublicKeys='{"a": "/a.pem", "b": "env:B"}')
    assert options.for_write(STREAM_WRITE).encryption_keys == ("a", "b")
    assert options.encryption_public_keys == KeyFiles(by_name=(("a", "/a.pem"), ("b", "env:B")))
    read = parse(encryptionPrivateKeys="file:///k.pem", cryptoFailureAction="discard").for_read(BATCH_READ)
    assert read.encryption_private_keys == KeyFiles("file:///k.pem")
    assert read.crypto_failure_action == "DISCARD"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"encryptionKeys": "a"}, "encryptionKeys and encryptionPublicKeys need each other"),
        ({"encryptionPublicKeys": "/a.pem"}, "need each other"),
        ({"encryptionKeys": "a,b", "encryptionPublicKeys": '{"a": "/a.pem"}'}, "names no key for b"),
        ({"encryptionKeys": " ,", "encryptionPublicKeys": "/a.pem"}, "expected the name of a key"),
        ({"encryptionKeys": "a", "encryptionPublicKeys": "a.pem"}, "absolute path"),
        ({"encryptionKeys": "a", "encryptionPublicKeys": '{"a": 1}'}, "JSON object of name to place"),
        ({"cryptoFailureAction": "FAIL"}, "for writes with encryptionKeys only"),
        (
            {"encryptionKeys": "a", "encryptionPublicKeys": "/a.pem", "cryptoFailureAction": "DISCARD"},
            "DISCARD is for reads",
        ),
        ({"encryptionPrivateKeys": "/a.pem"}, "for batch read and stream read only"),
    ],
)
def test_writes_that_contradict_themselves(options: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        parse(**options).for_write(STREAM_WRITE)


def test_reads_that_contradict_themselves() -> None:
    with pytest.raises(OptionError, match="SEND is for writes"):
        parse(cryptoFailureAction="SEND").for_read(BATCH_READ)
    with pytest.raises(OptionError, match="DEADLETTER would publish decrypted payloads"):
        parse(encryptionPrivateKeys="/k.pem", mode="DEADLETTER", deadLetterTopic="d").for_read(BATCH_READ)
    with pytest.raises(OptionError, match="without what decrypts them"):
        parse(cryptoFailureAction="CONSUME", mode="DEADLETTER", deadLetterTopic="d").for_read(BATCH_READ)
    with pytest.raises(OptionError, match="keys in a batch are encrypted"):
        parse(cryptoFailureAction="CONSUME", keys='["k"]').for_read(BATCH_READ)


def test_a_private_key_among_the_options_is_refused_and_not_shown() -> None:
    # covers READ-15
    pem = "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----"
    url = "data:application/x-pem-file;base64," + base64.b64encode(pem.encode()).decode()
    for value in (pem, url, '{"a": "' + url + '"}', '{"a": "SECRET', "SECRET"):
        with pytest.raises(OptionError, match=r"encryptionPrivateKeys = \*+\(redacted\): ") as refused:
            parse(encryptionPrivateKeys=value)
        assert "SECRET" not in str(refused.value)
        assert url not in str(refused.value)
