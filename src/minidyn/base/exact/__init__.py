"""Base parameters without a tolerance."""
