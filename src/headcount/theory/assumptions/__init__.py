"""Which assumptions of the theory a task meets."""
