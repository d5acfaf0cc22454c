"""What the code of a user's task amounts to: a hash that changes when the task does.

The instructions of its builder are hashed with their constants and defaults, with what its closure holds, and
with the globals of its module that it refers to: numbers, strings, containers and arrays of them, functions
and classes, and so on from these. Comments, layout and docstrings do not count. What other modules define
counts by its name alone. Another version of Python has other instructions, so for results that must outlive
it a task should declare a version.
"""

import dis
import functools
import hashlib
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

from headcount.errors import InvalidInput

# Of how instructions are laid out in memory, and not of what they do.
LAYOUT = {"CACHE", "EXTENDED_ARG", "NOP", "RESUME", "PRECALL"}
PLAIN = (int, float, complex, str, bytes, type(None), type(Ellipsis))


def code_version(name: str, builder: Callable[..., Any]) -> str:
    """A hash of the builder of a task and of all that it refers to in its module.

    >>> code_version("one", lambda: 1.0) == code_version("one", lambda: 1.0)
    True
    >>> code_version("one", lambda: 1.0) == code_version("one", lambda: 1.0001)
    False
    """
    reader = _Reader(str(getattr(builder, "__module__", "")))
    try:
        reader.read(builder)
    except (_Unreadable, RecursionError, ValueError) as error:
        raise InvalidInput(
            f"task {name!r}: expected a version, as in register_task({name!r}, version='1'), since its code "
            f"cannot be hashed ({error})"
        ) from None
    return reader.digest.hexdigest()[:16]


class _Unreadable(Exception):
    """An object that does not say what it is made of."""


class _Reader:
    """Hashes whatever can be reached from a builder: functions, classes and containers once each."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.digest = hashlib.sha256()
        self.seen: dict[int, Any] = {}  # kept alive, so that no id is given out twice

    def note(self, *texts: object) -> None:
        self.digest.update("\0".join(map(str, texts)).encode(errors="surrogatepass") + b"\n")

    def read(self, value: Any) -> None:
        if isinstance(value, PLAIN):
            return self.note(type(value).__name__, repr(value))
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            array = np.asarray(value)
            self.note("array", array.dtype, array.shape, array.tobytes().hex())
            return None
        if isinstance(value, types.ModuleType):
            return self.note("module", value.__name__)
        if isinstance(value, types.CodeType):
            return self.code(value, {})
        if not isinstance(value, tuple):
            if id(value) in self.seen:
                return self.note("again", list(self.seen).index(id(value)))
            self.seen[id(value)] = value
        return self.compound(value)

    def compound(self, value: Any) -> None:
        self.note(type(value).__qualname__)
        if isinstance(value, Mapping):
            self.each(part for pair in value.items() for part in pair)
        elif isinstance(value, set | frozenset):
            self.each(sorted(value, key=repr))
        elif isinstance(value, tuple | list | range):
            self.each(value)
        elif isinstance(value, functools.partial):
            self.each((value.func, value.args, value.keywords))
        elif isinstance(value, types.MethodType):
            self.each((value.__func__, value.__self__))
        elif isinstance(value, types.FunctionType | type | types.BuiltinFunctionType):
            self.definition(value)
        elif hasattr(value, "__wrapped__"):  # by jax.jit and its like
            self.read(value.__wrapped__)
        elif hasattr(value, "__qualname__"):
            self.note(getattr(value, "__module__", ""), value.__qualname__)  # a function in another language
        elif hasattr(value, "__dict__"):
            self.each((type(value), vars(value)))
        elif isinstance(value, np.ufunc | np.dtype):
            self.note(value)
        else:
            raise _Unreadable(f"it refers to a {type(value).__name__}")

    def each(self, values: Iterable[Any]) -> None:
        for value in values:
            self.read(value)

    def definition(self, value: Any) -> None:
        """A function or a class: what is in it where the task's module defines it, its name elsewhere."""
        if value.__module__ != self.module:
            self.note(value.__module__, value.__qualname__)
        elif isinstance(value, type):
            self.each(value.__bases__)
            for name, part in vars(value).items():
                made = isinstance(part, types.FunctionType | staticmethod | classmethod | property)
                if made or not name.startswith("__"):
                    self.note(name)
                    self.read(part.fget if isinstance(part, property) else part)
        else:
            self.each((value.__defaults__, value.__kwdefaults__))
            self.code(value.__code__, value.__globals__)
            for cell in value.__closure__ or ():
                self.read(cell.cell_contents)

    def code(self, code: types.CodeType, names: Mapping[str, Any]) -> None:
        """Its instructions with the values that they refer to, and the globals that it finds by name."""
        self.note(code.co_argcount, code.co_kwonlyargcount, code.co_varnames, code.co_freevars)
        for step in dis.get_instructions(code):
            if step.opname in LAYOUT:
                continue
            self.note(step.opname)
            if isinstance(step.argval, types.CodeType):
                self.code(step.argval, names)
            elif step.opcode in dis.hasconst or not isinstance(step.argval, PLAIN):
                self.read(step.argval)
            elif step.opcode not in dis.hasjrel and step.opcode not in dis.hasjabs:
                self.note(step.argval)
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in names:
                self.read(names[step.argval])
