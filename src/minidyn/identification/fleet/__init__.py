"""Many robots of one type: what they share, what each has of its own, and which of them are unlike the others."""
