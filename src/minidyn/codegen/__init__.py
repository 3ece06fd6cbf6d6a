"""Files of source code for other programs."""
