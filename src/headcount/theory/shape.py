"""What decides which D a model reaches: layers, heads, key-value heads, the reader, who sees whom."""

from dataclasses import dataclass
from typing import Literal, get_args

from headcount.validation import check_choice, check_integer, expected

Reading = Literal["last", "every", "last token"]
Mask = Literal["full", "causal"]

MAX_SPARSE_LENGTH = 2048  # who sees whom is a matrix of this size
LARGEST = 10_000  # layers, heads or numbers: beyond any model


@dataclass(frozen=True)
class Shape:
    """What decides the capacity of a model, checked; `capacity` says what each is."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    reading: Reading = "every"
    mask: Mask = "full"
    positions: bool = False
    feedforward: bool = False
    width: int | None = None
    window: int | None = None
    stride: int | None = None
    global_tokens: int = 0
    length: int | None = None

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "kv_heads", "head_dim"):
            check_integer(name, getattr(self, name), at_least=1, at_most=LARGEST)
        for name in ("width", "window", "stride", "length"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), at_least=1)
        check_integer("global_tokens", self.global_tokens, at_least=0)
        if self.heads % self.kv_heads:
            raise expected("kv_heads", f"a divisor of heads = {self.heads}", self.kv_heads)
        for name in ("positions", "feedforward"):
            check_choice(name, getattr(self, name), (True, False))
        check_choice("reading", self.reading, get_args(Reading))
        check_choice("mask", self.mask, get_args(Mask))
        if self.sparse:
            self._check_sparse()

    def _check_sparse(self) -> None:
        """What decides how far tokens hear of each other; decoders that see little are not known."""
        for name, known in (("mask", ("full",)), ("reading", ("last", "every"))):
            if getattr(self, name) not in known:
                raise expected(name, f"{' or '.join(known)} with a window or a stride", getattr(self, name))
        if self.length is None:
            raise expected("length", "that of the sequences, with a window or a stride", None)
        check_integer("length", self.length, at_least=1, at_most=MAX_SPARSE_LENGTH)

    @property
    def sparse(self) -> bool:
        """Whether tokens see few others."""
        return self.window is not None or self.stride is not None

    @property
    def relays(self) -> int | None:
        """After how many layers every token has heard of every other; None: not in so many layers."""
        if not self.sparse or self.length is None:
            return 1
        if self.window is not None and self.stride is None:
            found = relays_of_window(self.length, window=self.window, global_tokens=self.global_tokens)
            return found if found <= self.layers else None
        from headcount.theory.sight import relays  # loads NumPy and JAX, which the other laws do without

        return relays(
            self.length,
            most=self.layers,
            window=self.window,
            stride=self.stride,
            global_tokens=self.global_tokens,
        )

    @property
    def gathers(self) -> bool:
        """Whether tokens gather of the whole sequence in a layer; in a decoder only the last one knows it."""
        if self.mask == "causal" or self.reading == "last token":
            return False
        return not self.sparse or self.relays == 1

    @property
    def numbers(self) -> int:
        """kv·n: what passes through a layer's key-value heads."""
        return self.kv_heads * self.head_dim

    @property
    def group_size(self) -> int:
        """Query heads that share a key-value head."""
        return self.heads // self.kv_heads


def relays_of_window(length: int, *, window: int, global_tokens: int = 0) -> int:
    """After how many layers every token has heard of every other, with a window alone: ⌈(T - 1) / w⌉.

    A layer passes on what is heard by w places. Through a global token, which sees all and all see, two
    layers are enough; one is where the others lie within a window.

    >>> relays_of_window(9, window=3), relays_of_window(9, window=3, global_tokens=1)
    (3, 2)
    """
    if global_tokens:
        return 1 if length - 1 - global_tokens <= window else 2
    return max(1, -(-(length - 1) // window))
