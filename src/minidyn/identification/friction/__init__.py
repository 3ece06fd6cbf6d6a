"""Friction terms chosen from the data."""
