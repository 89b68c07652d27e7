"""Authentication: credentials that a client shows to a broker, under the names of Pulsar's Java plugins.

`plugins` holds the table of plugins and the configuration that is carried; each other module is one plugin. A client
makes its credentials once in a process. Every connection requests their data anew, and again whenever a broker says
that they have expired, so that tokens may be replaced while a query runs.
"""
