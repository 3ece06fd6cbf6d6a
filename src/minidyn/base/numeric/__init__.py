"""Base parameters from random states in floating point."""
