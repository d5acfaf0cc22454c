"""The tasks: retrieval targets, and a library of named ones."""

from headcount.tasks import library as library  # registers the built-in tasks
