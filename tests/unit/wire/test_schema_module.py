"""The committed generated module is what the compiler makes of the committed schema: `make proto` renews it."""

import re
import subprocess
import sys
from pathlib import Path

from spark_pulsar.wire import pulsar_api_pb2 as api

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = "spark_pulsar/wire/pulsar_api.proto"


def without_versions(text: str) -> str:
    """Generated code without the compiler's version, which a newer but compatible one changes."""
    return re.sub(r"# Protobuf Python Version: .*", "", text)


def test_generated_module_is_up_to_date(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / ".ci/proto", tmp_path], check=True, capture_output=True)
    for name in ("pulsar_api_pb2.py", "pulsar_api_pb2.pyi"):
        path = Path("spark_pulsar/wire") / name
        assert without_versions((tmp_path / path).read_text()) == without_versions((ROOT / path).read_text()), name


def test_no_runtime_is_refused() -> None:
    """Code of a newer compiler checks for a runtime as new; platforms ship 4.25 to 6."""
    assert "runtime_version" not in (ROOT / "spark_pulsar/wire/pulsar_api_pb2.py").read_text()


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
