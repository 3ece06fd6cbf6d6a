"""Logs of any format to recordings: one file per format, columns bound to joints."""
