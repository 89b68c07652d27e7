"""Diagnosis of a topic and its subscriptions: from answers of the admin API of any Pulsar to sentences that name why a
consumer receives nothing, or nothing can be published, with the command that mends it (WHY).

`gathering` names the requests and turns their answers into `facts`; a function of `subscription_rules`,
`consumer_rules` or `topic_rules` is one cause; `diagnosing` applies them and puts the most direct one first. Nothing
here sends a request: the command line and the broker's page do, each in its own way.
"""
