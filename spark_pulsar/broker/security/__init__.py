"""Authentication as the core sees it, and authorization: the role of a session, and its permissions."""
