"""Minimal linear combinations by rule (LinFang1999)."""
