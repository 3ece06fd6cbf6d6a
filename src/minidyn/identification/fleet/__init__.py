"""Many robots of one type.

What they share, what each has of its own, and which of them are unlike the others.
"""
