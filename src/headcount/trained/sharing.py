"""One layer's heads with fewer key-value heads: weights from weights, and the moments of what enters."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from headcount.errors import InvalidInput
from headcount.trained.affine import Columns, with_bias_row, without_bias_row
from headcount.trained.alike import Alike, Groups, alike_groups, neighbours
from headcount.trained.attention import KEY, QUERY, VALUE, AttentionBlock, Biases, Rows
from headcount.trained.grouping import (
    Products,
    Way,
    grouped_keys,
    grouped_values,
    joint_svd,
    mean,
    procrustes_mean,
    root,
)
from headcount.trained.inputs import InputMoments, Moment
from headcount.trained.rotary import Grams, grouped_rotary_keys, rotary_products
from headcount.trained.scores import Scores
from headcount.validation import check_integer

Method = Literal["joint", "procrustes", "mean"]
METHODS: tuple[Method, ...] = get_args(Method)
WAYS: dict[Method, Way] = {"joint": joint_svd, "procrustes": procrustes_mean, "mean": mean}


@dataclass(frozen=True, eq=False)
class SharedHeads:
    """The attention of a layer with fewer key-value heads, those that share one being neighbours.

    - `order`: of the heads, as they were numbered before; the other parts are in this order.
    """

    order: tuple[int, ...]
    queries: Rows
    keys: Rows
    values: Rows
    output: Float[np.ndarray, "joined width"]
    query_bias: Biases | None = None
    key_bias: Biases | None = None
    value_bias: Biases | None = None
    output_bias: Float[np.ndarray, " width"] | None = None

    @classmethod
    def read(cls, block: AttentionBlock, order: Sequence[int]) -> "SharedHeads":
        """What a layer has now, after its heads were put in this order."""
        return cls(
            order=tuple(order),
            queries=block.weights(QUERY),
            keys=block.weights(KEY),
            values=block.weights(VALUE),
            output=block.output_weight(),
            query_bias=block.biases(QUERY),
            key_bias=block.biases(KEY),
            value_bias=block.biases(VALUE),
            output_bias=block.output_bias(),
        )

    @property
    def values_only(self) -> bool:
        """Whether several keys go with one value."""
        return len(self.values) < len(self.keys)

    def put_into(self, block: AttentionBlock) -> None:
        """Change a layer in place."""
        block.share(self.keys, self.values, self.key_bias, self.value_bias, order=self.order)
        block.set_part(QUERY, self.queries, self.query_bias)
        block.set_output(self.output, self.output_bias)


@dataclass(frozen=True, eq=False)
class LayerMetric:
    """What the data of a layer look like.

    - `scores`: how queries and keys meet; None where keys cannot be shared, so that values alone are.
    - `grams`: the overlaps of its key-value heads' keys, where these have rotary embeddings.
    - `roots`: of its moments, as far as they were asked for.
    """

    moments: InputMoments
    scores: Scores | None
    grams: Grams | None
    roots: dict[tuple[str, int], Moment] = field(default_factory=dict, repr=False)

    @property
    def values_only(self) -> bool:
        """Whether keys stay as they are."""
        return self.scores is None

    def root(self, which: str, columns: Columns) -> Moment:
        """Of the moment of [x, 1], or of x for a map without a bias; the same for all counts and methods."""
        size = columns.shape[1]
        if (which, size) not in self.roots:
            self.roots[which, size] = root(getattr(self.moments, which)[:size, :size])
        return self.roots[which, size]


@dataclass(frozen=True, eq=False)
class Layer:
    """What grouping reads of a layer: the maps of every head, and the metrics of the data.

    Heads that already share a key-value head each have a copy of it here.
    """

    queries: Columns
    keys: Columns
    values: Columns
    outputs: Float[np.ndarray, "head number width"]
    query_root: Moment
    key_root: Moment
    value_root: Moment
    interleaved: bool
    grams: Grams | None
    units: Groups

    @classmethod
    def of(cls, block: AttentionBlock, metric: LayerMetric) -> "Layer":
        """Read a block."""
        heads, size = block.heads, block.group_size
        queries, keys, values = (
            with_bias_row(block.weights(which), block.biases(which)) for which in (QUERY, KEY, VALUE)
        )
        of_head = np.arange(heads) // size
        return cls(
            queries=queries,
            keys=keys.repeat(size, axis=0),
            values=values.repeat(size, axis=0),
            outputs=block.output_weight().reshape(heads, block.head_dim, -1),
            query_root=metric.root("queries", queries),
            key_root=metric.root("centred", keys),
            value_root=metric.root("values", values),
            interleaved=metric.scores == "rotary, interleaved",
            grams=None if metric.grams is None else metric.grams[:, of_head[:, None], of_head],
            units=tuple(tuple(range(start, start + size)) for start in range(0, heads, size)),
        )

    def groups(self, kv_heads: int, *, choose: bool, values_only: bool = False) -> Groups:
        """Which heads are to share, by what the joint SVD of pairs loses; or neighbours."""
        units = self.units
        if values_only:
            if not choose:
                return neighbours(units, kv_heads)
            return alike_groups([Alike.of(self._of_values())], units, kv_heads)
        if len(units) % kv_heads:  # a key-value head has to be in two groups
            units = tuple((head,) for unit in units for head in unit)
        if not choose:
            return neighbours(units, kv_heads)
        return alike_groups([Alike.of(self._of_values()), Alike.of(self._of_keys())], units, kv_heads)

    def shared_keys(self, heads: Sequence[int], way: Way) -> tuple[Columns, Columns]:
        """One key for some heads, and the queries of each."""
        some = list(heads)
        if self.grams is None:
            key, own = grouped_keys(
                self.keys[some],
                self.queries[some],
                key_root=self.key_root,
                query_root=self.query_root,
                way=way,
            )
        else:
            key, own = grouped_rotary_keys(
                self.keys[some],
                self.queries[some],
                interleaved=self.interleaved,
                query_root=self.query_root,
                grams=self.grams[:, np.array(some)[:, None], some],
                way=way,
            )
        return key[None], own

    def _of_values(self) -> list[Products]:
        return [Products(self.values, self.outputs, self.value_root)]

    def _of_keys(self) -> list[Products]:
        keys, queries = self.keys, self.queries
        if self.grams is None:
            return [Products(keys, queries.transpose(0, 2, 1), self.key_root, self.query_root)]
        return rotary_products(
            keys, queries, interleaved=self.interleaved, query_root=self.query_root, grams=self.grams
        )


def shared_heads(
    block: AttentionBlock,
    metric: LayerMetric,
    kv_heads: int,
    *,
    method: Method = "joint",
    choose: bool = True,
) -> SharedHeads:
    """A layer's heads with so many key-value heads.

    - `choose`: which heads share, too; otherwise neighbours do.
    """
    check_count(block, kv_heads, values_only=metric.values_only)
    layer, way = Layer.of(block, metric), WAYS[method]
    groups = layer.groups(kv_heads, choose=choose, values_only=metric.values_only)
    values = [
        grouped_values(
            layer.values[list(heads)],
            layer.outputs[list(heads)],
            root_of_inputs=layer.value_root,
            way=way,
        )
        for heads in groups
    ]
    order = tuple(head for heads in groups for head in heads)
    value_biased = block.biases(VALUE) is not None
    carried, value_bias = without_bias_row(np.stack([value for value, _ in values]), biased=value_biased)
    with_values: dict[str, Any] = {
        "order": order,
        "values": carried,
        "value_bias": value_bias,
        "output": np.concatenate([own for _, own in values]).reshape(-1, block.width),
        "output_bias": block.output_bias(),
    }
    if metric.values_only:
        return SharedHeads(**with_values, **_as_they_are(block, order))
    keys = [layer.shared_keys(heads, way) for heads in groups]
    biased = [block.biases(which) is not None for which in (QUERY, KEY)]
    queries, query_bias = without_bias_row(np.concatenate([own for _, own in keys]), biased=biased[QUERY])
    shared, key_bias = without_bias_row(np.concatenate([key for key, _ in keys]), biased=biased[KEY])
    return SharedHeads(**with_values, queries=queries, keys=shared, query_bias=query_bias, key_bias=key_bias)


def _as_they_are(block: AttentionBlock, order: Sequence[int]) -> dict[str, Any]:
    """Queries in this order, and keys in that of their heads."""
    heads, keys = list(order), [head // block.group_size for head in order[:: block.group_size]]

    def taken(values: Rows | Biases | None, places: list[int]) -> Any:
        return None if values is None else values[places]

    return {
        "queries": taken(block.weights(QUERY), heads),
        "query_bias": taken(block.biases(QUERY), heads),
        "keys": taken(block.weights(KEY), keys),
        "key_bias": taken(block.biases(KEY), keys),
    }


def check_count(block: AttentionBlock, kv_heads: int, *, values_only: bool = False) -> None:
    """Refuse a number of key-value heads that a layer cannot have."""
    check_integer("kv_heads", kv_heads, at_least=1)
    if values_only:
        if block.kv_heads % kv_heads:
            raise InvalidInput(
                f"kv_heads: expected a divisor of the {block.kv_heads} keys of {block.name}, each of which "
                f"stays as it is, got {kv_heads}"
            )
        return
    if block.heads % kv_heads or kv_heads > block.kv_heads:
        raise InvalidInput(
            f"kv_heads: expected a divisor of the {block.heads} heads of {block.name}, at most its "
            f"{block.kv_heads} key-value heads, got {kv_heads}"
        )
    if block.layout.groups is None:
        raise InvalidInput(f"{block.name}: {block.layout.name} cannot have fewer key-value heads than heads")
