"""Who a session is, and what its role may do: authentication as the core sees it, and authorization."""
