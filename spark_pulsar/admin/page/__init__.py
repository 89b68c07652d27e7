"""The page at `/` of the HTTP port: static files, and the list of policies that it shows."""
