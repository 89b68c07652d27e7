"""Kernels without numba give the same results; compiled code is kept where it may be."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from spark_pulsar.wire.columns.kernels import compiler, machine_code

ROOT = Path(__file__).parents[4]
COMPILED = pytest.mark.skipif(not compiler.COMPILED, reason="nothing is compiled")

# Encodes and decodes one made-up table with everything in it, and prints a digest of the rows and of the key_hashes.
SAMPLE = """
import hashlib, sys
{before}
import pyarrow as pa
from random import Random
from spark_pulsar.wire.columns import encode, entries, key_hashes
from spark_pulsar.wire.columns.kernels.compiler import COMPILED
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.unit.wire.columns import decode, forge

rng = Random(3)
parts = []
while len(parts) < 60:
    one = forge.entry_slice(rng, forge.damaged(rng, forge.entry(rng)) if len(parts) % 3 == 0 else forge.entry(rng))
    try:
        decode.decode_entries([one])
    except Exception as refused:
        parts.append(str(refused))
    else:
        parts.append([one])
good = [one for part in parts if isinstance(part, list) for one in part]
table = decode.decode_entries(good)
texts = pa.array([None if key is None else key.hex() + "é𝄞" for key in table.column("key").to_pylist()])
seen = [part if isinstance(part, str) else decode.decode_entries(part).to_pylist() for part in parts]
seen += [batch.to_pylist() for batch in decode.record_batches(good, "t", max_rows=7)]
for column in (table.column("key"), texts):
    keys = key_hashes.text_keys(column)
    seen += [key_hashes.partition_of(keys, 4, scheme).tolist() for scheme in ("JavaStringHash", "Murmur3_32Hash")]
    partitions = key_hashes.partition_of(keys, 4)
    partitions[partitions < 0] = 2
    columns = encode.message_columns(
        table.column("value"), keys=keys, ordering_keys=table.column("key"),
        properties=table.column("properties"), event_times=table.column("event_time"),
    )
    groups = key_hashes.group_rows(partitions, 4)
    seen += [bytes(batch.payload) for batch in encode.encode_batches(columns, groups=groups, max_messages=5)]
print(COMPILED, len(table), hashlib.sha256(repr(seen).encode()).hexdigest())
"""


def printed(program: str, cwd: Path = ROOT, **environment: str) -> str:
    """Runs a program in a process of its own; what it prints."""
    command, env = [sys.executable, "-c", program], {**os.environ, **environment}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def sample(before: str = "", **environment: str) -> list[str]:
    """Runs the sample: [whether compiled, rows, digest]."""
    return printed(SAMPLE.format(before=before), **environment).split()


@pytest.mark.long
def test_results_do_not_depend_on_compilation() -> None:
    compiled = sample("from spark_pulsar.wire.columns.kernels import compiler; compiler.compile_now()")
    assert compiled[0] == str(compiler.COMPILED)
    assert int(compiled[1]) > 40
    for interpreted in (sample(NUMBA_DISABLE_JIT="1"), sample("sys.modules['numba'] = None")):
        assert interpreted == ["False", *compiled[1:]]
    assert sample() == compiled, "interpreted at first, compiled when it has become much"


LITTLE_AND_MUCH = """
import sys
import numpy as np
from spark_pulsar.wire.columns.kernels import compiler, inflate_kernels
block = np.frombuffer(bytes([0x50, *b"hello"]), np.uint8)
sizes = {inflate_kernels.lz4_block_size(block) for _ in range(compiler.INTERPRETED_ITEMS // len(block))}
assert (sizes, "numba" in sys.modules) == ({5}, False)
assert inflate_kernels.lz4_block_size(block) == 5
assert "numba" in sys.modules
"""


@COMPILED
def test_little_is_done_without_numba() -> None:
    printed(LITTLE_AND_MUCH)


@COMPILED
def test_a_numba_that_cannot_be_imported_is_done_without() -> None:
    broken = "import sys; sys.modules['numba.core.types'] = None\n"
    printed(broken + LITTLE_AND_MUCH.replace('assert "numba" in sys.modules', ""))


NEGATIVE_DOUBLE = """
import struct
import numpy as np
from spark_pulsar.connector.schemas.decoding.avro.kernels import COUNT_FIELDS, DOUBLE, END, read_records
data = np.frombuffer(struct.pack("<d", -0.0), np.uint8)
program = np.array([DOUBLE, -1, 0, 1, 0, 0, -1, 0, 0, END, -1, -1, 0, 0, 0, -1, 0, 0])
counts, codes, values = np.zeros(2 + COUNT_FIELDS, np.int64), np.zeros(1, np.int64), np.zeros(2, np.int64)
none, stack = np.zeros(0, np.int64), np.zeros(3, np.int64)
assert read_records(data, np.array([0, 8]), 0, program, none, stack, counts, codes, values) == 1
assert (codes.tolist(), values.tolist()) == ([0], [-(2**63), 1])
"""


@pytest.mark.parametrize("disable_jit", ["0", "1"])
def test_a_sign_is_bit_63_with_and_without_compilation(disable_jit: str) -> None:
    printed(NEGATIVE_DOUBLE, NUMBA_DISABLE_JIT=disable_jit)


@COMPILED
def test_numbas_own_variable_decides_where_code_is_kept(tmp_path: Path) -> None:
    imports = "from spark_pulsar.wire.columns.kernels import compiler, inflate_kernels"
    program = f"{imports}, machine_code; compiler.compile_now(); print(machine_code.cache_directory())"
    assert printed(program, NUMBA_CACHE_DIR=str(tmp_path)).strip() == "None"
    assert list(tmp_path.rglob("*lz4_block_size*.nbc"))


@COMPILED
def test_code_is_kept_in_a_directory_named_after_the_sources() -> None:
    if (directory := machine_code.cache_directory()) is not None:
        assert Path(directory).name.startswith("kernels-")
        assert list(Path(directory).rglob("*.nbi"))


def run_in(directory: Path, package: Path, **environment: str) -> str:
    """Imports one module of kernels from a package in a process of its own; what it prints of its file and result."""
    program = """
import numpy as np
from spark_pulsar.wire.columns.kernels import inflate_kernels
kernel = inflate_kernels.lz4_block_size.compiled()
print(inflate_kernels.__file__, kernel.py_func.__code__.co_filename)
"""
    return printed(program, directory, PYTHONPATH=str(package), **environment)


@pytest.mark.long
@COMPILED
@pytest.mark.parametrize("unpacked", [False, True])
def test_what_an_application_brought_is_compiled_once_for_all(tmp_path: Path, unpacked: bool) -> None:
    kept: set[Path] = set()
    for application in ("first", "second"):
        directory = tmp_path / application
        directory.mkdir()
        if unpacked:
            package = directory / "packages"
            shutil.copytree(
                ROOT / "spark_pulsar", package / "spark_pulsar", ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            package = Path(shutil.make_archive(str(directory / "package"), "zip", ROOT, "spark_pulsar/wire"))
            with zipfile.ZipFile(package, "a") as archive:
                archive.write(ROOT / "spark_pulsar" / "__init__.py", "spark_pulsar/__init__.py")
        cache = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "SPARK_EXECUTOR_DIRS": "/nowhere"}
        imported, of_code = run_in(directory, package, **cache).split()
        assert imported.startswith(str(package))
        assert of_code.startswith(str(tmp_path / "cache" / "spark-pulsar" / "kernels-"))
        code = set((tmp_path / "cache").rglob("*lz4_block_size*.nbc"))
        assert len(code) == 1
        assert kept in (set(), code), "compiled again, in another place"
        kept = code
        written = {path: path.stat().st_mtime_ns for path in code}
        run_in(directory, package, **cache)
        assert {path: path.stat().st_mtime_ns for path in code} == written
    assert not (tmp_path / "cache" / "numba").exists()


def test_directories_that_cannot_or_must_not_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not machine_code.usable(tmp_path / "file" / "below")
    assert machine_code.usable(tmp_path / "new" / "deep")
    everybodys = tmp_path / "everybodys"
    everybodys.mkdir()
    everybodys.chmod(0o777)
    assert not machine_code.usable(everybodys)


def test_threads_and_forked_processes_share_the_kernels() -> None:
    # Spark forks its Python workers; kernels run without the interpreter lock, so threads really meet in them.
    program = """
import os
from concurrent.futures import ThreadPoolExecutor
from random import Random
from spark_pulsar.wire.columns import entries
from tests.unit.wire.columns import decode
from tests.unit.wire.columns.test_entries import BATCH, KEYED

slices = [entries.EntrySlice(data, 1, i) for i in range(500) for data in (BATCH, KEYED)]
expected = decode.decode_entries(slices)
child = os.fork()
if child == 0:
    os._exit(0 if decode.decode_entries(slices).equals(expected) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
with ThreadPoolExecutor(4) as pool:
    assert all(batch.equals(expected) for batch in pool.map(decode.decode_entries, [slices] * 20))
"""
    printed(program)
