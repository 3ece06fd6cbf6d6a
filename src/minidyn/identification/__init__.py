"""Identification: from recordings to a model with honest errors."""
