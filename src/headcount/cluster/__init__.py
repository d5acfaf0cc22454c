"""Sweeps on a Ray cluster: packs travel to workers, finished rows come back, and only the driver writes."""

from headcount.cluster.connection import connected as connected
from headcount.cluster.run import run_on_ray as run_on_ray
