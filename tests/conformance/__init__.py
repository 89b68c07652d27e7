"""Official clients, and single frames, against a real broker process.

Every test holds on Apache Pulsar 4.0.8 as well, or is marked `ours_only` with the rule row where we differ on purpose.
A comment `# covers` names the rule rows of `../shared/reference/broker-semantics.md` and the sections of
`wire-protocol.md` (`wire 5.9`).
"""
