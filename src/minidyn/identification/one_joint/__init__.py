"""One joint at a time: a chain of small problems."""
