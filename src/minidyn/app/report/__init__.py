"""Reports: result values -> figures -> one self-contained HTML file."""
