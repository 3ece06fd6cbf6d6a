"""Recorded functions on NVIDIA GPUs.

The source text, and kernels that take and return GPU arrays.
"""
