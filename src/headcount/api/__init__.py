"""What users hold in a notebook."""
