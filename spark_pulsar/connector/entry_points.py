"""Entry points: the methods that Spark calls (READ-42). What the user can mend leaves them as one sentence, the reason
first.

Spark's Python processes send the text of a traceback to the JVM, frames first, and Spark shows it in the middle of its
own. `SPARK_HIDE_TRACEBACK` is the variable by which Spark's setting `…pyspark.udf.hideTraceback.enabled` has them send
the error alone. They end after any error, so that it can be set for just one. Errors that are no class of ours keep
their frames: they are bugs. The setting `spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled` keeps all.
"""

from __future__ import annotations

import functools
import inspect
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from spark_pulsar.connector.errors import CONNECTOR_ERRORS
from spark_pulsar.connector.refusals import with_cure
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.extras import MissingLibrary

EXPECTED_ERRORS: Final[tuple[type[Exception], ...]] = (*CONNECTOR_ERRORS, PulsarError, MissingLibrary)
"""Errors that a user, or an administrator, can mend."""
_HIDE: Final = "SPARK_HIDE_TRACEBACK"
_KEEP: Final = "SPARK_TRACEBACK_WITH_LOCALS"
_SPECIAL: Final = ("__init__", "__getstate__")

Class = TypeVar("Class", bound=type)
Function = TypeVar("Function", bound=Callable[..., Any])


def entry_points(decorated: Class) -> Class:
    """Decorates the public methods of a class, its constructor and its pickling; see the module."""
    for name, method in list(vars(decorated).items()):
        if inspect.isfunction(method) and (name in _SPECIAL or not name.startswith("_")):
            setattr(decorated, name, entry_point(method, is_pickling=name == "__getstate__"))
    return decorated


def entry_point(function: Function, *, is_pickling: bool = False) -> Function:
    """Decorates one function, or generator, that Spark runs; see the module. With `is_pickling` its errors are of the
    kind that Spark passes on, in place of "Could not serialize object"."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except EXPECTED_ERRORS as error:
            raise _shown(error, is_pickling).with_traceback(None) from error.__cause__

    @functools.wraps(function)
    def generating(*args: Any, **kwargs: Any) -> Iterator[Any]:
        try:
            yield from function(*args, **kwargs)
        except EXPECTED_ERRORS as error:
            raise _shown(error, is_pickling).with_traceback(None) from error.__cause__

    return generating if inspect.isgeneratorfunction(function) else called  # type: ignore[return-value]


def _shown(error: Exception, is_pickling: bool) -> Exception:
    """Returns the error as users see it, and has Spark's process send it alone."""
    cured = with_cure(error)
    if _is_process_of_spark() and _KEEP not in os.environ:
        os.environ[_HIDE] = "1"
    return _pickling_kind(type(cured))(*cured.args) if is_pickling else cured


def _pickling_kind(kind: type[Exception]) -> type[Exception]:
    return type(
        kind.__name__, (kind, pickle.PickleError), {"__module__": kind.__module__, "__qualname__": kind.__name__}
    )


def _is_process_of_spark() -> bool:
    """Returns whether Spark started this process, to run or to plan Python code."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
