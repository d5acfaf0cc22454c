"""Transformers with explicit weights and a guaranteed error."""
