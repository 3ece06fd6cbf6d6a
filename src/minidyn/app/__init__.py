"""Whole jobs for people: the command line, study files, the report."""
