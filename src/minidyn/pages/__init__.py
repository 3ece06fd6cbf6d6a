"""Pages: one HTML file each that loads nothing, its charts, style and script."""
