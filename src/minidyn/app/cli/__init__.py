"""The command line: verbs and what they print."""
