"""Robots as files of simulators, controllers and robots.

One file a consumer, listed in `identification/export.py`.
"""
