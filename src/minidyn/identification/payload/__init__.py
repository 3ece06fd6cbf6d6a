"""Loads: mass, centre and inertia from a run with a load."""
