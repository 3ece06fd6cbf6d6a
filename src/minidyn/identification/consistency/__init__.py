"""Physically consistent models: priors, the convex problem, its solver, the certificate."""
