"""The things that rules are about: core, session, producer, topic, subscription, consumer, and the registry of
topics."""
