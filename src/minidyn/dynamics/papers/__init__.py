"""The papers' own ways to compute dynamics: formulations, minimal sets, sixteen parameters."""
