"""Frame of the command line: groups, commands that are loaded when they are used, and mistakes of users."""
