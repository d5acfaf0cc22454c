"""What can go wrong at a person's hands. The message is one line: the value, and what is allowed."""


class HeadcountError(Exception):
    """Anything that a person can mend; the command line prints it as one line and exits 2."""


class InvalidInput(HeadcountError, ValueError):
    """A value that cannot be used, named together with what would be right."""


class StorageError(HeadcountError, OSError):
    """A file or folder that cannot be read or written, named."""


class ClusterLost(HeadcountError):
    """A cluster that no longer answers; what came back before is kept."""
