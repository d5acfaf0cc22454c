"""A target written as a formula, such as "sin(3*x[0,0]) * x[4,0]": read, never run as code."""

import ast
import math
import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
from jaxtyping import Array, Float

from headcount.errors import InvalidInput
from headcount.validation import check_integer, expected, shown

MAX_CHARACTERS = 1_000
MAX_DEPTH = 100  # as deep as a sum of a hundred terms

OPERATORS: dict[type[ast.operator], Callable[[Array, Array], Array]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
ENTRYWISE: dict[str, Callable[[Array], Array]] = {
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tanh": jnp.tanh,
    "exp": jnp.exp,
    "log": jnp.log,
    "sqrt": jnp.sqrt,
    "abs": jnp.abs,
}
OVER_ENTRIES: dict[str, Callable[..., Array]] = {
    "min": jnp.min,
    "max": jnp.max,
    "mean": jnp.mean,
    "sum": jnp.sum,
}
ALLOWED = (
    f"finite numbers, pi, x, x[t, j], + - * / **, {', '.join([*ENTRYWISE, *OVER_ENTRIES])}, and nothing else"
)


@dataclass(frozen=True)
class Expression:
    """A formula in x, the array (length, token_dim), as a function of x.

    x[t, j] is entry j of token t, both from 0. min, max, mean and sum of one value run over all of its
    entries, of several values entry by entry. Everything is checked when the formula is read, so a
    mistake is found before anything is computed.

    >>> Expression("max(x) - abs(x[0,0] - 1/2) ** 2", length=2, token_dim=1)(jnp.array([[1.0], [0.25]]))
    Array(0.75, dtype=float32)
    """

    text: str
    length: int
    token_dim: int

    def __post_init__(self) -> None:
        check_integer("length", self.length, at_least=1)
        check_integer("token_dim", self.token_dim, at_least=1)
        self._check(self._tree, depth=0)

    def __call__(self, x: Float[Array, "length token_dim"]) -> Array:
        """The value at x, in the precision of x."""
        return self._value(self._tree, jnp.asarray(x))

    @cached_property
    def _tree(self) -> ast.expr:
        if not isinstance(self.text, str) or not self.text.strip():
            raise expected("expression", f"a formula of {ALLOWED}", self.text)
        if len(self.text) > MAX_CHARACTERS:
            raise InvalidInput(
                f"expression: expected at most {MAX_CHARACTERS} characters, got {len(self.text)}"
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about what is refused anyway
                return ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else error
            raise expected("expression", f"a formula of {ALLOWED} ({reason})", self.text) from None

    def _check(self, node: ast.expr, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise InvalidInput(f"expression: expected at most {MAX_DEPTH} nested levels, got {depth}")
        for inner in self._parts(node):
            self._check(inner, depth + 1)

    def _parts(self, node: ast.expr) -> list[ast.expr]:
        """What a node is made of, where it is allowed itself."""
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                if abs(value) < 1e300:  # an int may have any size
                    return []
            case ast.Name(id="x" | "pi"):
                return []
            case ast.Subscript(value=ast.Name(id="x"), slice=ast.Tuple(elts=[token, entry])):
                self._check_index(node, token, below=self.length)
                self._check_index(node, entry, below=self.token_dim)
                return []
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return [operand]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return [left, right]
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                if (name in ENTRYWISE and len(arguments) == 1) or (name in OVER_ENTRIES and arguments):
                    return arguments
        raise InvalidInput(f"expression: expected {ALLOWED}, got {self._source(node)}")

    def _check_index(self, node: ast.Subscript, index: ast.expr, *, below: int) -> None:
        value = index.value if isinstance(index, ast.Constant) else None
        if isinstance(value, bool) or not isinstance(value, int) or value >= below:
            raise InvalidInput(
                f"expression: expected x[t, j] with t from 0 to {self.length - 1} and j from 0 to "
                f"{self.token_dim - 1}, got {self._source(node)}"
            )

    def _source(self, node: ast.expr) -> str:
        return shown(ast.get_source_segment(self.text.strip(), node) or ast.dump(node))

    def _value(self, node: ast.expr, x: Array) -> Array:
        match node:
            # As arrays: between plain numbers 1/0 would raise and (-1)**0.5 be complex.
            case ast.Constant(value=int() | float() as value):
                return jnp.asarray(float(value), x.dtype)
            case ast.Name(id=name):
                return x if name == "x" else jnp.asarray(math.pi, x.dtype)
            case ast.Subscript(slice=ast.Tuple(elts=[ast.Constant(token), ast.Constant(entry)])):
                return x[token, entry]
            case ast.UnaryOp(op=op, operand=operand):
                return -self._value(operand, x) if isinstance(op, ast.USub) else self._value(operand, x)
            case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() as power)) if power < 64:
                return self._value(left, x) ** power  # exact, and with a slope at 0
            case ast.BinOp(left=left, op=op, right=right):
                return OPERATORS[type(op)](self._value(left, x), self._value(right, x))
            case ast.Call(func=ast.Name(id=name), args=[argument]):
                return {**ENTRYWISE, **OVER_ENTRIES}[name](self._value(argument, x))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                values = jnp.broadcast_arrays(*(self._value(argument, x) for argument in arguments))
                return OVER_ENTRIES[name](jnp.stack(values), axis=0)
        raise AssertionError(node)
