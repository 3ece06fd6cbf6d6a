"""Motions that show what is to be known."""
