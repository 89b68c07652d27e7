"""The column `__topic`: the topic of each row where no option names one (SINK-19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.connector.errors import OptionError
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import TopicName

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_SHOWN: Final = 200


def by_topic(table: pa.Table, topic: str | None, rows_before: int) -> list[tuple[str, pa.Table]]:
    """Returns the rows of each topic: all of one if the option names it, else by the column `__topic`. Full names.

    `rows_before` is the number of rows that the task had before these. Raises OptionError for a null, InvalidTopicName
    for a text that is no name; then nothing of these rows is written (SINK-19).
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if topic is not None:
        return [(topic, table)]
    column = table.column("__topic").combine_chunks()
    if column.null_count:
        places = _places(pc.is_null(column), rows_before)
        raise OptionError(f"a row has no topic: __topic is null in {places}, and the option topic is not given")
    encoded = pc.dictionary_encode(column)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    names = []
    for index, name in enumerate(encoded.dictionary.to_pylist()):
        try:
            names.append(TopicName.parse(name).full)
        except InvalidTopicName as error:
            places = _places(pc.equal(encoded.indices, index), rows_before)
            raise InvalidTopicName(f"__topic is {name[:_MOST_SHOWN]!r} in {places}: {error.message}") from error
    if len(names) == 1:
        return [(names[0], table)]
    numbers = encoded.indices.to_numpy()
    ordered = table.take(pa.array(np.argsort(numbers, kind="stable")))
    counts = np.bincount(numbers)
    firsts = (np.cumsum(counts) - counts).tolist()
    parts = zip(names, firsts, counts.tolist(), strict=True)
    return [(name, ordered.slice(first, count)) for name, first, count in parts]


def _places(matches: pa.Array, rows_before: int) -> str:
    """Returns the words for the rows that match: the first one's place in the task, and the number of all."""
    import pyarrow.compute as pc

    first = rows_before + pc.index(matches, True).as_py() + 1
    count = pc.sum(matches).as_py()
    return f"row {first} of the task" + (f" and {count - 1} more of the {len(matches)} rows here" if count > 1 else "")
