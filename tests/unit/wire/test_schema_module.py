"""The committed generated module is what the compiler makes of the committed schema. Run this file to renew it:

python -m grpc_tools.protoc -I. --python_out=. --mypy_out=. spark_pulsar/wire/pulsar_api.proto
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from spark_pulsar.wire import pulsar_api_pb2 as api

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = "spark_pulsar/wire/pulsar_api.proto"


def without_versions(text: str) -> str:
    """Generated code without the compiler's version, which a newer but compatible one changes."""
    text = re.sub(r"# Protobuf Python Version: .*", "", text)
    return re.sub(r"Domain\.PUBLIC,\s+\d+,\s+\d+,\s+\d+,", "", text)


def test_generated_module_is_up_to_date(tmp_path: Path) -> None:
    plugin = f"--plugin=protoc-gen-mypy={Path(sys.executable).with_name('protoc-gen-mypy')}"
    compiler = [sys.executable, "-m", "grpc_tools.protoc"]
    subprocess.run(
        [*compiler, "-I.", plugin, f"--python_out={tmp_path}", f"--mypy_out={tmp_path}", SCHEMA],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name in ("pulsar_api_pb2.py", "pulsar_api_pb2.pyi"):
        path = Path("spark_pulsar/wire") / name
        assert without_versions((tmp_path / path).read_text()) == without_versions((ROOT / path).read_text()), name


def test_sub_messages_have_the_number_of_their_type() -> None:
    types = api.BaseCommand.Type.DESCRIPTOR.values_by_number
    fields = {number: field for number, field in api.BaseCommand.DESCRIPTOR.fields_by_number.items() if number != 1}
    assert set(fields) == set(types)
    for number, field in fields.items():
        written = types[number].name.replace("_", "").lower()
        # A few fields have a name of their own: LOOKUP is lookupTopic, PARTITIONED_METADATA partitionMetadata.
        assert field.name.replace("_", "").lower()[:6] == written.replace("partitioned", "partition")[:6]


def test_scalable_topics_are_left_out_and_their_numbers_free() -> None:
    numbers = set(api.BaseCommand.DESCRIPTOR.fields_by_number)
    assert numbers == {1, *range(2, 41), *range(50, 69)}


def test_names_cannot_clash_with_another_library() -> None:
    assert api.DESCRIPTOR.package == "spark_pulsar.wire"
    assert api.DESCRIPTOR.name == SCHEMA
