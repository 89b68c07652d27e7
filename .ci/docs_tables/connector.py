"""Tables of options and columns in docs/connector-*.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from spark_pulsar.connector.columns import METADATA_COLUMNS, READ_COLUMNS, WRITE_COLUMNS, Column
from spark_pulsar.connector.options.table import ANY, OPTIONS, READ, WRITE, Option

from .markdown import table

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


def tables(pages: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Returns the tables of the connector's pages, by page and mark.

    A link of a meaning names a heading alone, `(#message-ids)`: it leads to the page that has this heading.
    """
    made = {
        OPTIONS_PAGE: {"options": options_tables()},
        "connector-read.md": {
            "columns of reads": columns_table(READ_COLUMNS),
            "metadata columns": columns_table(METADATA_COLUMNS),
        },
        "connector-write.md": {"columns of writes": columns_table(WRITE_COLUMNS)},
    }
    homes = {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-"): name
        for name, text in pages.items()
        for heading in re.findall(r"^##+ (.+)$", text, re.MULTILINE)
        if name.startswith("connector") and name != OPTIONS_PAGE
    }

    def linked(text: str, page: str) -> str:
        def link(found: re.Match[str]) -> str:
            home = homes[found[1]]
            return f"](#{found[1]})" if home == page else f"]({home}#{found[1]})"

        return re.sub(r"\]\(#([\w-]+)\)", link, text)

    return {page: {mark: linked(text, page) for mark, text in of_page.items()} for page, of_page in made.items()}


def options_tables() -> str:
    """Returns a heading and a table for each group of options: name, type, default, where it is valid, meaning."""
    options = {option.name: option for option in OPTIONS}
    parts = []
    for title, names in GROUPS:
        rows = [_option_row(options.pop(name)) for name in names.split()]
        parts.append(f"## {title}\n\n{table(('Option', 'Type', 'Default', 'For', 'Meaning'), rows)}")
    if options:
        raise ValueError(f"options without a group: {', '.join(options)}")
    return "\n\n".join(parts)


def columns_table(columns: Sequence[Column]) -> str:
    """Returns a row for each column: name, types, meaning."""
    return table(("Column", "Type", "Meaning"), [(f"`{c.name}`", " or ".join(c.types), c.meaning) for c in columns])


def _option_row(option: Option) -> tuple[str, ...]:
    return f"`{option.name}`", option.kind, option.default or "–", _where(option.uses), option.meaning


def _where(uses: tuple[str, ...]) -> str:
    return {ANY: "all", READ: "read", WRITE: "write"}.get(uses, ", ".join(uses))
