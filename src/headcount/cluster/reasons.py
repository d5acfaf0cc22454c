"""Why a worker failed, in one line without a traceback."""

TRACEBACK = "Traceback (most recent call last)"
MAX_CHARACTERS = 300


def reason_of(error: BaseException) -> str:
    r"""The type and message of an error; where Ray wraps what a worker raised, of the latter.

    >>> reason_of(ValueError("two\nlines"))
    'ValueError: two lines'
    """
    cause = getattr(error, "cause", None)
    found = cause if isinstance(cause, BaseException) else error
    text = str(found)
    if TRACEBACK in text:
        return _last_line(text)
    return f"{type(found).__name__}: {' '.join(text.split())}"[:MAX_CHARACTERS]


def _last_line(text: str) -> str:
    """The last line of a traceback, which has the type and the message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:MAX_CHARACTERS]
