"""Robots as files of simulators, controllers and robots: one file a consumer, listed in `identification/export.py`."""
