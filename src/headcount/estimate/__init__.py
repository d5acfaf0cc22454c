"""What the rows say about D: an estimate, an interval, a recommendation."""
