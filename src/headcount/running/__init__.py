"""Trials in, rows out, on this machine."""
