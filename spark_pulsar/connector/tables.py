"""Tables of options and columns in docs/connector-*.md: `python -m spark_pulsar.connector.tables` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from spark_pulsar.connector.columns import METADATA_COLUMNS, READ_COLUMNS, WRITE_COLUMNS, Column
from spark_pulsar.connector.options.table import ANY, OPTIONS, READ, WRITE, Option

OPTIONS_PAGE: Final = "connector-options.md"
GROUPS: Final = (
    ("Connection", "service.url admin.url operationTimeoutMs connectionTimeoutMs pollTimeoutMs sendTimeoutMs"),
    ("Topics", "topic topics topicsPattern waitingForNonExistedTopic failOnDataLoss"),
    ("Start and end of a read", "startingOffsets endingOffsets startingTime endingTime"),
    ("Columns and rows of a read", "metadataColumns keys keysHashingScheme readCompacted"),
    ("Subscriptions", "subscriptionName predefinedSubscription subscriptionPrefix enableRetry retryLetterTopic"),
    (
        "Micro-batches and tasks",
        "maxMessagesPerTrigger maxBytesPerTrigger minMessagesPerTrigger maxTriggerDelay minPartitions"
        " maxRecordsPerPartition smallBatchMaxMessages",
    ),
    (
        "Schemas of a read",
        "useTopicSchema allowDifferentTopicSchemas unsupportedFields jsonBytes mode columnNameOfCorruptRecord"
        " deadLetterTopic",
    ),
    ("Schemas of a write", "schemaType jsonTimes keySchemaType valueSchemaType keyValueEncodingType"),
    (
        "Partitions and batches of a write",
        "messageRoutingMode hashingScheme compressionType batchingMaxMessages batchingMaxBytes batcherBuilder"
        " chunkingEnabled chunkMaxMessageSize producerProperties",
    ),
    (
        "Guarantees of a write",
        "deliveryGuarantee producerName repeatableRowOrder transactionTimeoutMs transactionTopic",
    ),
    (
        "TLS, authentication and proxies",
        "pulsar.client.useTls pulsar.client.tlsTrustCertsFilePath pulsar.client.tlsHostnameVerificationEnable"
        " pulsar.client.tlsAllowInsecureConnection pulsar.client.tlsCertificateFilePath"
        " pulsar.client.tlsKeyFilePath pulsar.client.authPluginClassName pulsar.client.authParams"
        " pulsar.client.listenerName pulsar.client.proxyServiceUrl pulsar.client.proxyProtocol",
    ),
    ("End-to-end encryption", "encryptionKeys encryptionPublicKeys encryptionPrivateKeys cryptoFailureAction"),
)
"""Headings of the options' page, with the names of the options under each."""


def with_tables(pages: Mapping[str, str]) -> dict[str, str]:
    """Replaces the tables between their marks, `<!-- NAME -->` and `<!-- /NAME -->`, in pages by their file names.

    A link of a meaning names a heading alone, `(#message-ids)`: it leads to the page that has this heading.
    """
    tables = {
        "options": (OPTIONS_PAGE, options_tables()),
        "columns of reads": ("connector-read.md", columns_table(READ_COLUMNS)),
        "metadata columns": ("connector-read.md", columns_table(METADATA_COLUMNS)),
        "columns of writes": ("connector-write.md", columns_table(WRITE_COLUMNS)),
    }
    written = dict(pages)
    for mark, (page, table) in tables.items():
        before, begin, rest = written[page].partition(f"<!-- {mark} -->\n")
        _, end, after = rest.partition(f"<!-- /{mark} -->")
        if not (begin and end):
            raise ValueError(f"docs/{page}: no marks of the table {mark!r}")
        written[page] = f"{before}{begin}\n{_linked(table, page, pages)}\n\n{end}{after}"
    return written


def options_tables() -> str:
    """Returns a heading and a table for each group of options: name, type, default, where it is valid, meaning."""
    options = {option.name: option for option in OPTIONS}
    parts = []
    for title, names in GROUPS:
        rows = [_option_row(options.pop(name)) for name in names.split()]
        parts.append(f"## {title}\n\n{_table(('Option', 'Type', 'Default', 'For', 'Meaning'), rows)}")
    if options:
        raise ValueError(f"options without a group: {', '.join(options)}")
    return "\n\n".join(parts)


def columns_table(columns: Sequence[Column]) -> str:
    """Returns a row for each column: name, types, meaning."""
    return _table(("Column", "Type", "Meaning"), [(f"`{c.name}`", " or ".join(c.types), c.meaning) for c in columns])


def _option_row(option: Option) -> tuple[str, ...]:
    return f"`{option.name}`", option.kind, option.default or "–", _where(option.uses), option.meaning


def _where(uses: tuple[str, ...]) -> str:
    return {ANY: "all", READ: "read", WRITE: "write"}.get(uses, ", ".join(uses))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


def _linked(table: str, page: str, pages: Mapping[str, str]) -> str:
    """Puts the page of each heading into the links of a table."""
    homes = {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-"): name
        for name, text in pages.items()
        for heading in re.findall(r"^##+ (.+)$", text, re.MULTILINE)
        if name != OPTIONS_PAGE
    }

    def link(found: re.Match[str]) -> str:
        home = homes[found[1]]
        return f"](#{found[1]})" if home == page else f"]({home}#{found[1]})"

    return re.sub(r"\]\(#([\w-]+)\)", link, table)


def read_pages(folder: Path) -> dict[str, str]:
    """Reads the pages of the connector by their file names."""
    return {page.name: page.read_text() for page in sorted(folder.glob("connector*.md"))}


if __name__ == "__main__":
    docs = Path("docs")
    for name, text in with_tables(read_pages(docs)).items():
        (docs / name).write_text(text)
