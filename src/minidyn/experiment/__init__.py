"""Experiments: recordings of motion, trajectories that make it, simulation that stands in for the robot."""
