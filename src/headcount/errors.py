"""Errors that a user can act on. The message is one line: what was expected, and what was given."""


class HeadcountError(Exception):
    """Any error that a user can act on; the command line prints it as one line and exits 2."""


class InvalidInput(HeadcountError, ValueError):
    """A value that cannot be used, named together with what was expected."""


class StorageError(HeadcountError, OSError):
    """A file or folder that cannot be read or written."""


class ClusterLost(HeadcountError):
    """A cluster that no longer answers; what came back before is kept."""


class DataWarning(UserWarning):
    """Data that was probably not meant as it was read; the message says how to have it read otherwise."""
