"""The shape of a member: everything about a transformer that is not learnt."""

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Literal, get_args

from headcount.validation import check_choice, check_integer, check_number, expected

Activation = Literal["relu", "gelu", "tanh", "silu"]
ReadoutActivation = Literal[Activation, "step"]
PositionInput = Literal["none", "one_hot", "sinusoidal", "both"]
PositionsStart = Literal["drawn", "zero"]
ClassReads = Literal["last", "every"]
Reader = Literal["class token", "last token"]
Precision = Literal["float32", "tensorfloat32", "bfloat16"]

SINUSOIDS = 16


@dataclass(frozen=True)
class Architecture:
    r"""The class H(h, n, d, T, M): h heads of n numbers each, with the width E = n·h by default.

    Defaults are the paper's synthetic setting: a ReLU encoder d → N → E, one attention block with
    1/sqrt(n) logits, a GELU readout E → N → k.

    >>> Architecture(token_dim=4, heads=4, head_dim=8).counted_parameters()
    2305

    **Arguments:**

    - `token_dim`, `output_dim`: d and the size of y.
    - `heads`, `head_dim`: h and n.
    - `encoder_hidden`, `readout_hidden`: widths of the hidden layers of P and of F, any number of them.
    - `encoder_activation`, `readout_activation`: between their layers. `step`, in F alone, is Heaviside's
      function, which trains by a straight-through estimate (models/network.py).
    - `layers`: L. All but the last let tokens attend to tokens; the last is read at the class token.
    - `class_reads`: the layers in which the class token attends to tokens: `last`, until which it is
      constant, or `every`, as is common.
    - `reader`: what F reads: the class token, which sees all tokens, or the last token of the sequence.
    - `causal`: tokens see what stands before them and themselves, as in GPT.
    - `window`, `stride`, `global_tokens`: sparse attention (`visible` in models/positions.py).
    - `residual_width`: E, the width of tokens between attention blocks; None: n·h.
    - `kv_heads`: how many key-value heads the query heads share (grouped attention); None: one each.
    - `feedforward`: hidden width of a two-layer network after each token-to-token attention; 0: none.
    - `positions`, `length`: whether P sees t, and the largest T (`one_hot` and `both` need it).
    - `positions_start`: weights of positions start `drawn` like all others, or at `zero`: the model starts
      blind to t and learns to use it where that helps. Positions are the same in every sequence, and a
      model that sees them from the start soon memorises them.
    - `beta`, `scale_logits`: logits are multiplied by beta and, with `scale_logits`, divided by sqrt(n).
    - `residual`, `layer_norm`: around token-to-token attention; the norm also precedes the last layer.
    - `bounded`: Assumption 1 of the lower bound (models/bounded.py): P's output is scaled into the unit ball,
      and training keeps the entries of F and of the attention matrices within [−1, 1]. Beta stays free. The
      assumption itself is about an F of one hidden layer with relu or tanh; a deeper F and a step are the
      variants of the bound.
    - `precision`: of matrix products.
    """

    token_dim: int
    heads: int
    head_dim: int
    output_dim: int = 1
    encoder_hidden: tuple[int, ...] = (32,)
    readout_hidden: tuple[int, ...] = (32,)
    layers: int = 1
    kv_heads: int | None = None
    feedforward: int = 0
    encoder_activation: Activation = "relu"
    readout_activation: ReadoutActivation = "gelu"
    positions: PositionInput = "none"
    positions_start: PositionsStart = "drawn"
    length: int | None = None
    beta: float = 1.0
    scale_logits: bool = True
    residual: bool = False
    layer_norm: bool = False
    bounded: bool = False
    class_reads: ClassReads = "last"
    reader: Reader = "class token"
    causal: bool = False
    window: int | None = None
    stride: int | None = None
    global_tokens: int = 0
    residual_width: int | None = None
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        for field in ("token_dim", "heads", "head_dim", "output_dim", "layers"):
            check_integer(field, getattr(self, field), at_least=1)
        for field in ("encoder_hidden", "readout_hidden"):
            sizes = getattr(self, field)
            if not isinstance(sizes, tuple):
                raise expected(field, "a tuple of integers >= 1", sizes)
            for size in sizes:
                check_integer(field, size, at_least=1)
        for field in ("kv_heads", "length", "window", "stride", "residual_width"):
            if getattr(self, field) is not None:
                check_integer(field, getattr(self, field), at_least=1)
        if self.feedforward != 0:
            check_integer("feedforward", self.feedforward, at_least=1)
        check_integer("global_tokens", self.global_tokens, at_least=0)
        check_number("beta", self.beta, above=0)
        if self.heads % self.key_value_heads:
            raise expected("kv_heads", f"a divisor of heads = {self.heads}", self.kv_heads)
        for field, choices in _CHOICES.items():
            check_choice(field, getattr(self, field), choices)
        if self.positions in ("one_hot", "both") and self.length is None:
            raise expected("length", f"the length of the sequences for {self.positions} positions", None)
        if self.bounded:
            self._check_bounded()

    def _check_bounded(self) -> None:
        """Assumption 1 and its variants are about one layer without norms, and an F of these activations."""
        wanted: dict[str, tuple[object, bool]] = {
            "layers": (1, self.layers == 1),
            "layer_norm": (False, not self.layer_norm),
            "reader": ("class token", self.reader == "class token"),
            "readout_hidden": ("a hidden layer or more", len(self.readout_hidden) >= 1),
            "readout_activation": ("relu, tanh or step", self.readout_activation in ("relu", "tanh", "step")),
        }
        for field, (value, holds) in wanted.items():
            if not holds:
                raise expected(field, f"{value} in a bounded model", getattr(self, field))

    @property
    def width(self) -> int:
        """E: n·h, unless `residual_width` says otherwise."""
        return self.heads * self.head_dim if self.residual_width is None else self.residual_width

    @property
    def reads_every_layer(self) -> bool:
        """Whether what F reads took part in every layer."""
        return self.reader == "last token" or self.class_reads == "every"

    @property
    def sparse(self) -> bool:
        """Whether some token cannot see some other."""
        return self.causal or self.window is not None or self.stride is not None

    @property
    def key_value_heads(self) -> int:
        """How many key-value heads there are; the query heads share them in groups of equal size."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def group_size(self) -> int:
        """How many query heads share a key-value head."""
        return self.heads // self.key_value_heads

    @property
    def position_features(self) -> int:
        """How many features of t the encoder reads beside the token."""
        places, waves = self.length or 0, SINUSOIDS
        return {"none": 0, "one_hot": places, "sinusoidal": waves, "both": waves + places}[self.positions]

    @property
    def encoder_sizes(self) -> tuple[int, ...]:
        """Layer widths of P, from input to output."""
        return (self.token_dim + self.position_features, *self.encoder_hidden, self.width)

    @property
    def readout_sizes(self) -> tuple[int, ...]:
        """Layer widths of F, from input to output."""
        return (self.width, *self.readout_hidden, self.output_dim)

    @property
    def logit_scale(self) -> float:
        """What multiplies q·k before the softmax."""
        return self.beta / sqrt(self.head_dim) if self.scale_logits else self.beta

    def counted_parameters(self) -> int:
        """M: weights and biases of P, F and any feed-forward; attention is not counted, as in the paper."""
        feedforward = (self.width, self.feedforward, self.width) if self.feedforward else ()
        return (
            _parameters(self.encoder_sizes)
            + _parameters(self.readout_sizes)
            + (self.layers - 1) * _parameters(feedforward)
        )


_CHOICES = {
    "encoder_activation": get_args(Activation),
    "readout_activation": get_args(ReadoutActivation),
    "positions": get_args(PositionInput),
    "positions_start": get_args(PositionsStart),
    "class_reads": get_args(ClassReads),
    "reader": get_args(Reader),
    "precision": get_args(Precision),
}


def _parameters(sizes: tuple[int, ...]) -> int:
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))
