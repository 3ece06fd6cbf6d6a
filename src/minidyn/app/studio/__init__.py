"""The studio: the whole job in a browser window, served on this machine."""
