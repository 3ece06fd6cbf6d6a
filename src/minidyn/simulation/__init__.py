"""Closed-loop simulation, trajectories, plants."""
