"""Recorded functions on NVIDIA GPUs: the source text, and kernels that take and return GPU arrays."""
