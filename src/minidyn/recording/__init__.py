"""Recordings of motion: values in memory or on disk, their files, their preparation."""
