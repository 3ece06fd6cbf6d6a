"""Base parameters as formulas and words."""
