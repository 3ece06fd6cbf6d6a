"""Effects of a robot that identification may take into its model, one file each."""
