"""Errors of the connector itself. Broker and protocol errors keep their types from `model.errors`. Those that users can
mend, `CONNECTOR_ERRORS` and a broker's refusals, leave Spark's processes without a traceback (`entry_points`,
READ-42)."""

from typing import Final


class OptionError(ValueError):
    """An option is unknown, misspelt, malformed, misplaced or contradicts another one. The text says what to write."""


class RequirementError(RuntimeError):
    """Spark is too old, or the Python of its workers lacks a package. The text names both, and says what to do."""


class SchemaError(ValueError):
    """The columns requested (reading) or given (writing) are not ones the connector can produce or take."""


class NewColumnsError(RuntimeError):
    """Messages have columns that the schema of the read lacks, and `schemaEvolutionMode` ends the query for them. The
    text names the columns and their types."""


class DeliveryGuaranteeError(RuntimeError):
    """A write cannot keep its `deliveryGuarantee`. The text says why, and what to do."""


class OffsetError(ValueError):
    """An offset from a checkpoint or from `startingOffsets`/`endingOffsets` cannot be understood."""


class DataLossError(RuntimeError):
    """Messages between two offsets are no longer on the broker, and `failOnDataLoss` is true."""


class UnreadableMessageError(RuntimeError):
    """A stored entry cannot be turned into rows (encrypted, or damaged); names topic and position."""


class UndecodableMessageError(UnreadableMessageError):
    """A message is none of its topic's schema, and `mode` is FAILFAST; names topic, message id and reason."""


CONNECTOR_ERRORS: Final[tuple[type[Exception], ...]] = tuple(
    member for member in list(vars().values()) if isinstance(member, type) and issubclass(member, Exception)
)
"""The classes above: what a user, or an administrator, can mend."""
