"""The results made visible: charts, pages and pictures."""
