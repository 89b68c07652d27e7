"""Authentication: what a client shows to a broker to prove who it is, under the names of Pulsar's Java plugins.

`plugins` holds the table of plugins and the configuration that is carried; each other module is one plugin. Credentials
are made once for each client and process. They are asked again for every connection, and whenever a broker says that
they have expired, so that tokens may be replaced while a query runs.
"""
