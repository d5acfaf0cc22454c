"""A shrunk model as a folder that others can load, one file per kind of folder."""
