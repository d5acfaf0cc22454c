"""Pairs of sequences that a model cannot tell apart although their targets differ."""
