"""Options of `format("pulsar")`: the table of names, the parser, and what each value means."""
