"""What the attention of one layer looks like, whichever model it belongs to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headcount.errors import InvalidInput
from headcount.trained.arrays import Array
from headcount.trained.few_values import repeats_of, set_repeats
from headcount.trained.layout import Layout
from headcount.trained.linear import bias_of, set_linear, take, weight_of
from headcount.validation import expected

Rows = Float[np.ndarray, "head number input"]
Biases = Float[np.ndarray, "head number"]
QUERY, KEY, VALUE = 0, 1, 2


@dataclass(frozen=True)
class AttentionBlock:
    """One attention module: a view of its weights, and the changes that can be made to it in place.

    - `name`: its path in the model.
    - `projections`: the linear maps to queries, keys and values; one map where it makes all three.
    - `output`: the linear map whose input are the concatenated outputs of the heads.
    """

    name: str
    layout: Layout
    attention: nn.Module
    projections: tuple[nn.Module, ...]
    output: nn.Module

    @property
    def head_dim(self) -> int:
        """The numbers per head."""
        return int(getattr(self.attention, self.layout.head_dim))

    @property
    def heads(self) -> int:
        """The number of (query) heads."""
        return weight_of(self.output).shape[1] // self.head_dim

    @property
    def kv_heads(self) -> int:
        """The number of key-value heads: of keys, where several of them go with one value."""
        if len(self.projections) == 1:
            rows = weight_of(self.projections[0]).shape[0] // self.head_dim
            return (rows - self.heads) * self.value_repeats // (self.value_repeats + 1)
        return weight_of(self.projections[KEY]).shape[0] // self.head_dim

    @property
    def value_repeats(self) -> int:
        """Keys that go with each value: 1 but where values alone were grouped."""
        return repeats_of(self.projections[-1])

    @property
    def value_heads(self) -> int:
        """The number of values."""
        return self.kv_heads // self.value_repeats

    @property
    def width(self) -> int:
        """The numbers per token that it writes."""
        return weight_of(self.output).shape[0]

    @property
    def group_size(self) -> int:
        """Heads to a key-value head."""
        return self.heads // self.kv_heads

    @property
    def has_output_bias(self) -> bool:
        """Whether the output projection adds a bias."""
        return self.output.bias is not None

    def weights(self, which: int) -> Rows:
        """Of the queries, keys or values (`QUERY`, `KEY`, `VALUE`), head by head."""
        return _numpy(self._parts()[which][0]).reshape(self._count(which), self.head_dim, -1)

    def biases(self, which: int) -> Biases | None:
        """Of the queries, keys or values, head by head."""
        bias = self._parts()[which][1]
        return None if bias is None else _numpy(bias).reshape(self._count(which), self.head_dim)

    def output_weight(self) -> Float[np.ndarray, "joined width"]:
        """W of o = z W + b."""
        return _numpy(weight_of(self.output)).T

    def output_bias(self) -> Float[np.ndarray, " width"] | None:
        """B of o = z W + b."""
        bias = bias_of(self.output)
        return None if bias is None else _numpy(bias)

    def keep(self, kept: Sequence[int]) -> None:
        """Remove all other heads.

        Where heads share key-value heads and uneven numbers are left to them, a key-value head is repeated
        as often as it takes for all to serve the same number: with c_j heads left to key-value head j and
        their greatest common divisor g, head j is there c_j / g times.
        """
        kept = sorted(set(kept))
        if not kept or kept[0] < 0 or kept[-1] >= self.heads:
            raise expected(f"{self.name}: heads to keep", f"some of 0 to {self.heads - 1}", kept)
        if len(kept) == self.heads:
            return
        if self.value_repeats > 1:
            raise InvalidInput(f"{self.name}: expected a value for each key, got values that keys share")
        left = Counter(head // self.group_size for head in kept)
        size = gcd(*left.values())
        groups = [group for group in sorted(left) for _ in range(left[group] // size)]
        places = kept, groups, groups
        rows = [self._places(each) for each in places]
        parts = [
            (take(weight, row, dim=0), None if bias is None else take(bias, row, dim=0))
            for (weight, bias), row in zip(self._parts(), rows, strict=True)
        ]
        read = take(weight_of(self.output), rows[QUERY], dim=1)
        set_linear(self.output, read, bias_of(self.output))
        self._set_parts(parts)
        self._note_counts(heads=len(kept), kv_heads=len(groups))
        if self.layout.adapt is not None:
            self.layout.adapt(self.attention, kept)

    def set_output(self, weight: Float[Array, "joined width"], bias: Float[Array, " width"] | None) -> None:
        """Give the output projection the W and b of o = z W + b."""
        shape = (self.heads * self.head_dim, self.width)
        if weight.shape != shape:
            raise expected(f"{self.name}: output weight", f"the shape {shape}", tuple(weight.shape))
        set_linear(self.output, torch.as_tensor(weight.T), None if bias is None else torch.as_tensor(bias))

    def share(
        self,
        keys: Rows,
        values: Rows,
        key_bias: Biases | None,
        value_bias: Biases | None,
        *,
        order: Sequence[int] | None = None,
    ) -> None:
        """Put these key-value heads in place of its own: fewer, each for as many heads.

        Values may be fewer than keys: each is then for as many keys that stand side by side.

        - `order`: of the heads, where those that share did not stand side by side. Their rows of the output
          projection are moved alike.
        """
        count = len(keys)
        if self.heads % count or count % len(values):
            raise InvalidInput(
                f"{self.name}: expected a number of keys that divides {self.heads} and one of values that "
                f"divides that, got {count} and {len(values)}"
            )
        if count != self.heads and self.layout.groups is None:
            raise InvalidInput(
                f"{self.name}: {self.layout.name} cannot have fewer key-value heads than heads"
            )
        given = (keys, key_bias), (values, value_bias)
        flat = [(torch.from_numpy(_flat(weight)), _flat_bias(bias)) for weight, bias in given]
        queries = self._parts()[QUERY]
        if order is not None:
            queries = self._reordered(order, queries)
        heads = self.heads
        self._set_parts([queries, *flat])
        set_repeats(self.projections[-1], count // len(values), heads=len(values), head_dim=self.head_dim)
        self._note_counts(heads=heads, kv_heads=count)

    def set_part(self, which: int, weights: Rows, biases: Biases | None) -> None:
        """Give its queries, keys or values other weights, as many heads as before."""
        if len(weights) != self._count(which):
            raise expected(f"{self.name}: weights", f"{self._count(which)} heads", len(weights))
        parts = self._parts()
        parts[which] = torch.from_numpy(_flat(weights)), _flat_bias(biases)
        self._set_parts(parts)

    def _reordered(
        self, order: Sequence[int], queries: tuple[Tensor, Tensor | None]
    ) -> tuple[Tensor, Tensor | None]:
        """The queries in another order of heads, once everything but keys and values is in it too."""
        if sorted(order) != list(range(self.heads)):
            raise expected(f"{self.name}: order", f"each of {self.heads} heads once", list(order))
        places, (weight, bias) = self._places(order), queries
        set_linear(self.output, take(weight_of(self.output), places, dim=1), bias_of(self.output))
        if self.layout.adapt is not None:
            self.layout.adapt(self.attention, order)
        return take(weight, places, dim=0), None if bias is None else take(bias, places, dim=0)

    def _count(self, which: int) -> int:
        return {QUERY: self.heads, KEY: self.kv_heads, VALUE: self.value_heads}[which]

    def _places(self, heads: Sequence[int]) -> list[int]:
        """The rows of some heads."""
        return [head * self.head_dim + number for head in heads for number in range(self.head_dim)]

    def _parts(self) -> list[tuple[Tensor, Tensor | None]]:
        """Weight and bias of queries, keys and values."""
        maps = [(weight_of(each), bias_of(each)) for each in self.projections]
        if len(maps) == len((QUERY, KEY, VALUE)):
            return maps
        weight, bias = maps[0]
        sizes = [self._count(which) * self.head_dim for which in (QUERY, KEY, VALUE)]
        biases = [None] * 3 if bias is None else bias.split(sizes)
        return list(zip(weight.split(sizes), biases, strict=True))

    def _set_parts(self, parts: Sequence[tuple[Tensor, Tensor | None]]) -> None:
        if len(self.projections) == len(parts):
            for projection, (weight, bias) in zip(self.projections, parts, strict=True):
                set_linear(projection, weight, bias)
            return
        like = self.projections[0].weight
        biases = [bias.to(like) for _, bias in parts if bias is not None]
        weight = torch.cat([weight.to(like) for weight, _ in parts])
        set_linear(self.projections[0], weight, torch.cat(biases) if biases else None)

    def _note_counts(self, *, heads: int, kv_heads: int) -> None:
        """Tell the module, whose forward pass reads some of these."""
        if self.layout.heads is not None:
            setattr(self.attention, self.layout.heads, heads)
        for name in self.layout.joined:
            setattr(self.attention, name, heads * self.head_dim)
        if self.layout.groups is not None:
            setattr(self.attention, self.layout.groups, heads // kv_heads)


def _flat(weights: Rows) -> np.ndarray:
    return weights.reshape(-1, weights.shape[2])


def _flat_bias(values: Biases | None) -> Tensor | None:
    return None if values is None else torch.from_numpy(values.reshape(-1))


def _numpy(values: Tensor) -> np.ndarray:
    return values.to(device="cpu", dtype=torch.float64).numpy()
