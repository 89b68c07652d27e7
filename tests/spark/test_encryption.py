"""Encrypted messages through Spark: written, read, and what Spark shows of the keys."""

from __future__ import annotations

from pathlib import Path

import pulsar
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as F

from tests.conformance.connector.key_pairs import ec_pair, rsa_pair
from tests.spark.flows import Flows, texts


def test_rows_are_encrypted_and_decrypted_by_spark(flows: Flows, tmp_path: Path) -> None:
    # covers READ-13, READ-14, READ-15
    rsa, curve = rsa_pair(tmp_path), ec_pair(tmp_path)
    topic = flows.broker.topic("encrypted", partitions=2)
    frame = flows.spark.range(50, numPartitions=2).select(F.concat(F.lit("m"), "id").alias("value"))
    places = f'{{"rsa": "{rsa.public}", "curve": "{curve.public}"}}'
    flows.write(frame, topic, encryptionKeys="rsa,curve", encryptionPublicKeys=places, schemaType="STRING")
    keys = pulsar.CryptoKeyReader(rsa.public, rsa.private)
    earliest = pulsar.InitialPosition.Earliest
    consumer = flows.official().subscribe(topic, "official", initial_position=earliest, crypto_key_reader=keys)
    assert consumer.receive(30_000).data().decode() in texts(50)
    consumer.close()
    for private in (rsa.private, curve.private):
        found = flows.batch(topic, encryptionPrivateKeys=f"file://{private}")
        assert sorted(row["value"] for row in found.collect()) == sorted(texts(50))
    (rows,) = flows.drain(flows.stream(topic, encryptionPrivateKeys=rsa.private), flows.checkpoint())
    assert sorted(row["value"] for row in rows) == sorted(texts(50))
    stored = flows.batch(topic, cryptoFailureAction="CONSUME", useTopicSchema="false").collect()
    assert not {*values_of(stored)} & {text.encode() for text in texts(50)}
    with pytest.raises(PythonException, match="there is no option encryptionPrivateKeys"):
        flows.batch(topic).collect()
    secret = Path(rsa.private).read_text()
    with pytest.raises(AnalysisException, match=r"must not be among the options|expected") as refused:
        flows.batch(topic, encryptionPrivateKeys=secret)
    assert secret.splitlines()[1] not in str(refused.value)


def values_of(rows: list[object]) -> list[bytes]:
    return [bytes(row["value"]) for row in rows]  # type: ignore[index]
