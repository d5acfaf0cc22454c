"""Trains a pack: one compiled program per shape."""
