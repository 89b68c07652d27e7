"""Seeded histories of a whole broker: the real core and the real storage logic in a world that goes wrong on purpose.

One seed is one history. `profile` draws what it is about, `world` holds broker, storage, connections and clock and
decides what happens next, `actors` are the clients, `store` and `disk` what the bytes live on. `judge` hears everything
and keeps an account of its own (`account`): what is stored, what is acked, what was promised; it says `Violation` as
soon as the broker breaks a promise. The promises of each subscription type stand in `deliveries` (all of them, and the
end of a topic), `key_order` (Key_Shared), `takeovers` (Failover) and `non_persistent` (non-persistent topics),
exclusive access of producers in `leaders`, the end of idle subscriptions and topics in `uses`, schemas in `schemas`.
Transactions are begun and ended by `transacting`, as `transaction_client` remembers them; what they did stands in
`transactions`, and `transaction_judge` and `transaction_witness` say whether it may be. `compaction` does the
compactions that a core orders, `past` says where a power loss may lead back to when the journal is not synced. Nothing
reads a clock, a thread or a random source but the seed's own.

    make simulate SEEDS=1..2000        many seeds on all cores
    make simulate SEEDS=1234           one seed, with its story
"""
