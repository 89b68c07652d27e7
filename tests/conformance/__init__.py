"""Official clients, and single frames, against a real broker process.

Every test holds on Apache Pulsar 4.0.8 as well, or is marked `ours_only` with the rule row where we differ on purpose.
A comment `# covers` names rows of docs/rules.md.
"""
