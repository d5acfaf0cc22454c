"""A formula is read, checked and evaluated; nothing else in it is ever run."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headcount.errors import InvalidInput
from headcount.theory.density.expression import MAX_CHARACTERS, Expression

NAMES = {
    "pi": math.pi,
    **{name: getattr(np, name) for name in ("sin", "cos", "tanh", "exp", "log", "sqrt", "abs")},
}


def several(reduce):
    return lambda *values: (
        reduce(values[0]) if len(values) == 1 else reduce(np.broadcast_arrays(*values), axis=0)
    )


NAMES |= {name: several(getattr(np, name)) for name in ("min", "max", "mean", "sum")}


@pytest.mark.parametrize(
    "text",
    [
        "sin(3*x[0,0]) * x[2,1]",
        "max(x) - min(x)",
        "mean(x ** 2) + sum(tanh(x) * cos(pi * x)) / 3",
        "max(x[0,0], x[1,1], 0.5)",
        "-x[0,0] ** 2 + +2",
        "2 ** x[0,0] ** 0.5",
        "exp(-sqrt(x[0,0])) + log(1 + x[2,0])",
        "  7 ",
        "+".join(["x[0,0]"] * 90),
    ],
)
def test_formulas_mean_what_they_say(text):
    x = np.random.default_rng(0).uniform(0.1, 1, size=(3, 2))
    expected = eval(text.strip(), {"__builtins__": {}}, {"x": x, **NAMES})
    with jax.enable_x64(True):
        found = jax.jit(Expression(text, length=3, token_dim=2))(x)
    assert found.dtype == jnp.float64
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_square_has_a_slope_at_zero_and_the_precision_of_the_input():
    square = Expression("(x[0,0] - 1) ** 2 + x[0,0] ** 2 + pi", length=1, token_dim=1)
    with jax.enable_x64(True):
        x = jnp.zeros((1, 1), jnp.float32)
        assert float(jax.grad(square)(x)[0, 0]) == -2
        assert square(x).dtype == jnp.float32


@pytest.mark.parametrize(
    ("text", "is_so"), [("1/0", np.isposinf), ("(-1) ** 0.5", np.isnan), ("9**9**9", np.isposinf)]
)
def test_arithmetic_between_numbers_neither_raises_nor_leaves_the_reals(text, is_so):
    assert is_so(np.asarray(Expression(text, length=1, token_dim=1)(jnp.zeros((1, 1)))))


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("__import__('os').system('true')", "__import__"),
        ("1 + x.__class__", "x.__class__"),
        ("y + 1", "'y'"),
        ("sin(x[0,0], 1)", "sin"),
        ("max()", "max"),
        ("sum(x, axis=0)", "axis=0"),
        ("(1, 2)", r"\(1, 2\)"),
        ("True", "True"),
        ("1e999", "1e999"),
        ("9" * 400, "999"),
        ("x // 2", "x // 2"),
        ("~1", "~1"),
        ("x[0]", r"x\[0\]"),
        ("x[3,0]", r"t from 0 to 2 and j from 0 to 1, got .*x\[3,0\]"),
        ("x[-1,0]", r"x\[-1,0\]"),
        ("x[True,0]", r"x\[True,0\]"),
        ("sin(x)[0,0]", r"sin\(x\)\[0,0\]"),
        ("1 +", r"1 \+"),
        ("a\x00b", "expression"),
        ("", "expression: expected .* got ''"),
        ("(" * 300 + ")" * 300, "expression"),
        ("-" * (MAX_CHARACTERS - 1) + "1", "nested"),
        ("1" * (MAX_CHARACTERS + 1), f"got {MAX_CHARACTERS + 1}"),
        (None, "expected a formula"),
        (b"x", "expected a formula"),
    ],
)
def test_anything_else_is_refused_in_one_line_that_names_it(text, piece):
    with pytest.raises(InvalidInput, match=piece) as refusal:
        Expression(text, length=3, token_dim=2)
    assert "\n" not in str(refusal.value) and ": expected " in str(refusal.value)
