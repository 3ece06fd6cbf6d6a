"""Robots from and to files."""
