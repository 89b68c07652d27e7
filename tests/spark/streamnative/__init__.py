"""Checkpoints that StreamNative's connector wrote, and the topics that it read, in a data directory of this broker.

`recorded.tar.xz` was made on 2026-11-27 with the connector's newest source (2025-06-25, 3.4.1-SNAPSHOT, Java client
4.0.5) on Spark 3.4.1, the newest that it runs on; `recorded.json` has the rows of each micro-batch that it showed,
by checkpoint. The topics have unlimited retention: `batched` (m0 to m59, batches of ten at most), `plain` (m900 to
m902, m1000 to m1024, m1990, m1025 to m1059, one message an entry), `spread` (m2000 to m2059, two partitions, then
four). The last twenty of each came after all checkpoints, with the partitions. Checkpoints:

- `committed`: of all topics, from `earliest`, one micro-batch, which is committed;
- `uncommitted`: the same, with a second micro-batch in which the driver was killed;
- `first-uncommitted`: killed in the first micro-batch;
- `latest-uncommitted`: from `latest`, when `plain` had three messages, killed in the first micro-batch;
- `limited`: of `plain`, with `maxBytesPerTrigger`, killed in the fourth micro-batch.

Where its relocation of `javax.xml` keeps `maxBytesPerTrigger` from working, that line of its pom was left out.
"""
