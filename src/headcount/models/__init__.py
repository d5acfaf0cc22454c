"""The model class: what it looks like, what it computes, and how members of it share arrays."""
