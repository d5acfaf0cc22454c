"""Kinds of attention modules, one file each."""
