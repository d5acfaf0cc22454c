"""No matrix product runs below float32 unless asked: a GPU would otherwise use TF32 without a word."""

from collections.abc import Callable, Iterator

import jax
import jax.extend.core
import jax.numpy as jnp
import pytest
from jax.lax import Precision
from jaxtyping import Array
from model_references import ARCHITECTURES, LENGTH, small

from headcount.models.architecture import Architecture
from headcount.models.pooling import Pool, pool, pool_for_training
from headcount.models.transformer import Padding, Transformer

Program = Callable[[Transformer, Array], object]

either_pooling = pytest.mark.parametrize("pool", [pool, pool_for_training], ids=["pool", "pool_for_training"])


def precisions(program: Callable[..., object], *arguments: object) -> list[object]:
    """The precision of every matrix product of a program, wherever it is nested."""
    return list(_of_products(jax.make_jaxpr(program)(*arguments).jaxpr))


def _of_products(jaxpr: jax.extend.core.Jaxpr) -> Iterator[object]:
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield equation.params["precision"]
        for parameter in equation.params.values():
            for inner in _inside(parameter):
                yield from _of_products(inner)


def _inside(parameter: object) -> Iterator[jax.extend.core.Jaxpr]:
    if isinstance(parameter, jax.extend.core.ClosedJaxpr):
        yield parameter.jaxpr
    elif isinstance(parameter, jax.extend.core.Jaxpr):
        yield parameter
    elif isinstance(parameter, tuple | list):
        for item in parameter:
            yield from _inside(item)


def _loss(model: Transformer, x: Array, pool: Pool) -> Array:
    return jnp.sum(jax.vmap(lambda sequence: model(sequence, pool=pool))(x))


def _gradient(model: Transformer, x: Array, pool: Pool) -> object:
    return jax.value_and_grad(_loss)(model, x, pool)


def _gradient_inside_a_scan(model: Transformer, x: Array, pool: Pool) -> object:
    """As the engine does it: slices of a batch, one gradient each."""
    return jax.lax.scan(
        lambda _, part: (None, jax.value_and_grad(_loss)(model, part, pool)), None, x[:, None]
    )


PROGRAMS = {
    "value and gradient": _gradient,
    "gradient inside a scan": _gradient_inside_a_scan,
}
every_program = pytest.mark.parametrize("program", PROGRAMS)


def products(program: str, architecture: Architecture, pool: Pool) -> list[object]:
    model = Transformer.initialise(architecture, seed=0)
    x = jnp.zeros((2, LENGTH, architecture.token_dim))
    found = precisions(jax.jit(lambda model, x: PROGRAMS[program](model, x, pool)), model, x)
    # P, F, directions, scores, averages, readers: fewer would mean that the walk misses some.
    assert len(found) >= 7
    return found


def both(precision: Precision) -> tuple[Precision, Precision]:
    return precision, precision


def test_the_walk_finds_products_wherever_they_are_nested() -> None:
    @jax.custom_vjp
    def square(a: Array) -> Array:
        return jnp.dot(a, a, precision="highest")

    square.defvjp(
        lambda a: (jnp.dot(a, a, precision="high"), a),
        lambda a, bar: (2 * jnp.dot(bar, a, precision="default"),),
    )

    def scanned(a: Array) -> Array:
        total, _ = jax.lax.scan(lambda sum_, _: (sum_ + jax.jit(square)(a).sum(), None), 0.0, length=2)
        return total

    a = jnp.eye(2)
    assert precisions(jax.jit(scanned), a) == [both(Precision.HIGHEST)]
    assert set(precisions(jax.jit(jax.grad(scanned)), a)) == {both(Precision.HIGH), both(Precision.DEFAULT)}


@every_program
@either_pooling
@pytest.mark.parametrize("name", ["the paper's", "layer norm, one layer", "two layers with everything"])
def test_every_product_is_in_full_float32(name: str, program: str, pool: Pool) -> None:
    assert set(products(program, ARCHITECTURES[name], pool)) == {both(Precision.HIGHEST)}


@every_program
@either_pooling
@pytest.mark.parametrize(
    ("asked", "expected"), [("tensorfloat32", Precision.HIGH), ("bfloat16", Precision.DEFAULT)]
)
def test_lower_precision_is_had_by_asking(asked: str, expected: Precision, program: str, pool: Pool) -> None:
    assert set(products(program, small(precision=asked), pool)) == {both(expected)}


def test_representation_weights_and_padded_models_are_in_full_float32_too() -> None:
    model = Transformer.initialise(small(), seed=0)
    padding = Padding.of(small())
    asked: list[Program] = [
        lambda model, x: model.representation(x),
        lambda model, x: model.attention_weights(x),
        lambda model, x: model(x, padding=padding),
        lambda model, x: model(x, pool=pool_for_training),
    ]
    for question in asked:
        assert set(precisions(question, model, jnp.zeros((LENGTH, 3)))) == {both(Precision.HIGHEST)}
