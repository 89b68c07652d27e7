"""Tables of the documentation that are made from the package: `make tables` writes them into their pages."""
