"""Sweeps on a Ray cluster: packs travel to workers, rows come back, and only the driver writes."""
