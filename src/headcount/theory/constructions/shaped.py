"""`specialise` for a shape: layers, heads, key-value heads and a reader of the user's choice."""

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from math import e, exp

import numpy as np
from jaxtyping import Float

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.models.network import Network
from headcount.models.transformer import TokenLayer, Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.capacity import capacity
from headcount.theory.constructions.bound import ROUNDING, certified, with_room_for_rounding
from headcount.theory.constructions.composed import Readout, readout_of
from headcount.theory.constructions.construction import (
    Construction,
    assumptions_of,
    checked,
    guarantees,
)
from headcount.theory.constructions.coordinates import Coordinate, Outer, coordinates_of
from headcount.theory.constructions.encoding import GATE, encoder, leak
from headcount.theory.constructions.rounding import rounding
from headcount.theory.constructions.shallow import within_reach
from headcount.theory.constructions.span import FORM_POINTS, deal, forms_over, rank_of, values_of
from headcount.theory.constructions.stacked import (
    CLASS,
    TOKEN,
    Form,
    Layer,
    Stream,
    by_place,
    by_schedule,
    by_span,
    one_at_a_time,
)
from headcount.theory.schedule import by_place_reaches, groups_of, one_at_a_time_reaches, schedule
from headcount.theory.shape import Mask, Reading, Shape
from headcount.validation import check_integer

MAX_LAYERS = 100
_MAX_DEALT = 12  # coordinates: beyond this, shares are not searched for


@dataclass(frozen=True)
class Blueprint:
    """The layers of a model, and what else its parts must provide.

    - `marks`: into how many groups the encoder marks places; 0: it sees none of them.
    - `forms`: coordinates as combinations of others, where the key-value heads hold a basis alone.
    - `network`: whether tokens need the feed-forward network that keeps what they were asked for.
    """

    layers: tuple[Layer, ...]
    marks: int = 0
    forms: tuple[Form, ...] = ()
    network: bool = False


def specialise_shape(
    task: RetrievalTask,
    *,
    length: int,
    epsilon: float,
    layers: int = 1,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    reading: Reading = "every",
    positions: bool = False,
    feedforward: bool = False,
    seed: int = 0,
) -> Construction:
    """A model of the given shape within epsilon of the task's target on [0,1]^(T×d), or why there is none.

    Without `heads` the fewest that reach D, without `head_dim` the smallest that is enough.

    >>> from headcount.tasks.library import max_sum
    >>> task = max_sum(dimension=3, token_dim=3, directions=np.eye(3))
    >>> made = specialise_shape(task, length=4, epsilon=0.1, layers=2, heads=1)
    >>> made.model.architecture.head_dim, made.error.total < 0.1
    (2, True)
    """
    epsilon, length = checked(epsilon, length)
    sets = [places.mask(length) for places in task.positions]
    gated = not all(inside.all() for inside in sets)
    coordinates = coordinates_of(task, seed=seed)
    shape = _shape(task, layers, heads, kv_heads, head_dim, reading, positions, feedforward)
    shape, plan = _blueprint(task, coordinates, shape, length, gated=gated, chosen=head_dim is not None)
    return with_room_for_rounding(
        epsilon, lambda epsilon: _built(task, coordinates, shape, plan, length, epsilon, seed)
    )


def _built(
    task: RetrievalTask,
    coordinates: tuple[Coordinate, ...],
    shape: Shape,
    plan: Blueprint,
    length: int,
    epsilon: float,
    seed: int,
) -> Construction:
    sets = [places.mask(length) for places in task.positions]
    gated = not all(inside.all() for inside in sets)
    outer = Outer(task, coordinates)
    steepness, dimension = max(outer.steepness, 1e-12), task.dimension
    share = 1 / (4 * steepness * dimension)
    swelling = max([1.0, *(sum(map(abs, form.weights.values())) for form in plan.forms)])
    networks = [(partial(each.network, seed=seed), share / swelling) for each in coordinates]
    psis = within_reach(epsilon, networks, finest=outer.resolution)
    (readout,) = within_reach(epsilon, [(partial(readout_of, outer, seed=seed), 1 / 2)], finest=0.0)
    beta = max(1.0, length / (epsilon * share))
    marks = np.array([np.arange(length) % plan.marks == mark for mark in range(plan.marks)], float)
    blocks = encoder(psis, sets if gated else None, task.token_dim, GATE, marks if plan.marks else None)
    stream = _stream(plan, shape, dimension)
    model = _model(task, shape, plan, stream, blocks, readout, beta, length)
    inside = max(int(mask.sum()) for mask in sets)
    outside = length - min(int(mask.sum()) for mask in sets)
    soft = {
        "softened minimum": steepness * (inside - 1) / (e * beta),
        "tokens outside the position sets": steepness * leak(outside, beta, GATE),
    }
    if plan.marks:
        soft["tokens of other groups"] = steepness * min(1.0, length * exp(-min(beta, 700.0)))
    parts = {
        "networks of the f_i": steepness * (swelling * max(net.error for net in psis) + _residual(plan)),
        **soft,
        "network of F_0": readout.error,
    }
    lost = rounding(model, length, coordinates, outer, softened=sum(soft.values()), parts=parts)
    points = outer.points + readout.points + sum(net.points for net in psis) + FORM_POINTS * bool(plan.forms)
    error = certified({**parts, ROUNDING: lost}, points=points)
    return Construction(
        name="specialise",
        task=task,
        length=length,
        epsilon=epsilon,
        model=model,
        labels=stream.labels(),
        error=error,
        guarantees=guarantees(assumptions_of(task, length, seed), proven=error.proven),
    )


def _shape(
    task: RetrievalTask,
    layers: int,
    heads: int | None,
    kv_heads: int | None,
    head_dim: int | None,
    reading: Reading,
    positions: bool,
    feedforward: bool,
) -> Shape:
    """The shape that was asked for, with numbers enough where their number was left open."""
    mask: Mask = "causal" if reading == "last token" else "full"
    for name, number in (("heads", heads), ("kv_heads", kv_heads), ("head_dim", head_dim)):
        if number is not None:
            check_integer(name, number, at_least=1)
    check_integer("layers", layers, at_least=1, at_most=MAX_LAYERS)

    def of(heads: int) -> Shape:
        numbers = head_dim or (3 + positions * heads) * (heads // (kv_heads or heads)) + task.dimension
        return Shape(layers, heads, kv_heads or heads, numbers, reading, mask, positions, feedforward)

    if heads is not None:
        return of(heads)
    step = kv_heads or 1
    tried = [of(count) for count in range(step, task.dimension + step, step)]
    return next((shape for shape in tried if schedule(shape, task.dimension) is not None), tried[-1])


def _blueprint(
    task: RetrievalTask,
    coordinates: tuple[Coordinate, ...],
    shape: Shape,
    length: int,
    *,
    gated: bool,
    chosen: bool,
) -> tuple[Shape, Blueprint]:
    """Layers that reach D with this shape, of the fewest numbers a head where that was left open."""
    smaller = [shape] if chosen else [replace(shape, head_dim=size) for size in range(1, shape.head_dim + 1)]
    for each in smaller:
        if found := _plain(task.dimension, each, gated) or _dealt(task, coordinates, each, gated):
            return each, found
    for each in smaller:
        if found := _sighted(task.dimension, each, length, gated):
            return each, found
    raise _refusal(task.dimension, shape, length, chosen=chosen)


_READ = {"every": "in every layer", "last": "in the last layer", "last token": "at the last token"}


def _plain(dimension: int, shape: Shape, gated: bool) -> Blueprint | None:
    works = schedule(shape, dimension)
    return None if works is None else Blueprint(tuple(by_schedule(shape, works, gated=gated)))


def _dealt(
    task: RetrievalTask, coordinates: tuple[Coordinate, ...], shape: Shape, gated: bool
) -> Blueprint | None:
    """One layer whose key-value heads each hold a basis of the span of their share of the f_i.

    With position sets a head's scores are not functions of the token alone, and every f_i needs a number.
    """
    dimension = task.dimension
    if shape.layers > 1 or gated or dimension > min(shape.heads, _MAX_DEALT) or shape.reading == "last token":
        return None
    values = values_of(coordinates)
    if rank_of(values) in (dimension, *range(shape.numbers + 1, dimension)):
        return None  # independent, or more of them than there are numbers
    shares = deal(values, shape)
    if shares is None:
        return None
    forms = forms_over(values, shares)
    return Blueprint((by_span(shape, shares, forms),), forms=forms)


def _sighted(dimension: int, shape: Shape, length: int, gated: bool) -> Blueprint | None:
    """Two layers that see places, and idle ones between them; with a network where tokens are enough."""
    if not shape.positions or shape.layers == 1 or not shape.gathers:
        return None
    shape = replace(shape, length=length)
    idle = tuple(Layer(shape) for _ in range(shape.layers - 2))
    if shape.feedforward and dimension <= one_at_a_time_reaches(shape)[0]:
        first, last = one_at_a_time(shape, dimension, length, gated=gated)
        return Blueprint((first, *idle, last), marks=dimension, network=True)
    if dimension <= by_place_reaches(shape)[0]:
        groups = groups_of(shape)
        first, last = by_place(shape, dimension, groups, gated=gated)
        return Blueprint((first, *idle, last), marks=groups)
    return None


def _refusal(dimension: int, shape: Shape, length: int, *, chosen: bool) -> InvalidInput:
    """Why no weights are built: the sequences are too short for D, or the shape is too small for it."""
    granted = capacity(**vars(shape))
    if dimension <= granted.constructed:
        enough = bisect_left(
            range(1, max(dimension, shape.heads)),
            dimension,
            key=lambda tokens: capacity(**vars(replace(shape, length=tokens))).constructed,
        )
        return InvalidInput(f"length: expected at least {enough + 1}, a token for every group, got {length}")
    given = f"layers = {shape.layers}, heads = {shape.heads}, kv_heads = {shape.kv_heads}"
    numbers = f", head_dim = {shape.head_dim}" if chosen else ""
    return InvalidInput(
        f"dimension: expected at most {granted.constructed} for {given}{numbers}, read "
        f"{_READ[shape.reading]} ({granted.law}), got {dimension}"
    )


def _residual(plan: Blueprint) -> float:
    """How far a coordinate may be from its combination of others, as far as was seen."""
    return max((form.error for form in plan.forms), default=0.0)


def _stream(plan: Blueprint, shape: Shape, dimension: int) -> Stream:
    """A place for everything that some layer, the encoder or the readout names.

    As many as `capacity` counts, and one for each gate.
    """
    stream = Stream()
    for coordinate in range(dimension):
        if shape.reading == "last token":  # it has a psi of its own
            stream["psi", coordinate], stream["read", coordinate]
        else:
            stream.share(("read", coordinate), ("psi", coordinate))
    *token_layers, last = plan.layers
    asked = {asker for layer in token_layers for look in layer.looks for asker, _, _ in look.asks}
    if CLASS not in asked and any(asker == CLASS for look in last.looks for asker, _, _ in look.asks):
        stream.share(CLASS, ("read", 0))  # tokens do not ask in the last layer; F takes the constant off
    for layer in plan.layers:
        for numbers in layer.numbers:
            for key, value in numbers:
                for name in (*key, *((value,) if value else ())):
                    stream[name]
        for look in layer.looks:
            for asker, _, _ in look.asks:
                stream[asker]
            for _, place, _ in look.keeps:
                stream[place]
    return stream


def _model(
    task: RetrievalTask,
    shape: Shape,
    plan: Blueprint,
    stream: Stream,
    blocks: Network,
    readout: Readout,
    beta: float,
    length: int,
) -> Transformer:
    """All parts in one model, tokens and reader in the same stream."""
    sees_places = blocks.weights[0].shape[1] > task.token_dim
    architecture = Architecture(
        token_dim=task.token_dim,
        heads=shape.heads,
        head_dim=shape.head_dim,
        kv_heads=shape.kv_heads,
        output_dim=task.output_dim,
        encoder_hidden=tuple(len(bias) for bias in blocks.biases[:-1]),
        readout_hidden=tuple(len(bias) for bias in readout.biases[:-1]),
        layers=shape.layers,
        feedforward=task.dimension if plan.network else 0,
        readout_activation="relu",
        positions="one_hot" if sees_places else "none",
        length=length if sees_places else None,
        beta=beta,
        scale_logits=False,
        residual=shape.layers > 1,
        class_reads="last" if shape.reading == "last" else "every",
        reader="last token" if shape.reading == "last token" else "class token",
        causal=shape.mask == "causal",
        residual_width=stream.width,
    )
    *token_layers, last = (layer.attention(stream) for layer in plan.layers)
    networks = _networks(plan, stream, task.dimension)
    return Transformer(
        encoder=_placed(blocks, stream, task.dimension),
        token_layers=tuple(
            TokenLayer(attention, network, architecture)
            for attention, network in zip(token_layers, networks, strict=True)
        ),
        class_token=_class_token(plan, stream),
        attention=last,
        readout=_reading(readout, stream, task.dimension),
        architecture=architecture,
    )


def _placed(blocks: Network, stream: Stream, dimension: int) -> Network:
    """The encoder with its outputs at their places, and a constant 1 for every token."""
    outputs = len(blocks.biases[-1])
    names = [(kind, i) for i in range(dimension) for kind in ("psi", "gate")]
    names += [("mark", mark) for mark in range(outputs - 2 * dimension)]
    place = np.zeros((stream.width, outputs))
    for column, name in enumerate(names):
        if name in stream.places:
            place[stream[name], column] = 1.0
    bias = place @ blocks.biases[-1]
    if TOKEN in stream.places:
        bias[stream[TOKEN]] = 1.0
    weights, biases = (*blocks.weights[:-1], place @ blocks.weights[-1]), (*blocks.biases[:-1], bias)
    return Network(weights, biases, blocks.activation)


def _class_token(plan: Blueprint, stream: Stream) -> Float[np.ndarray, " width"]:
    class_token = np.zeros(stream.width)
    if CLASS in stream.places:
        class_token[stream[CLASS]] = 1.0
    for coordinate, form in enumerate(plan.forms):
        class_token[stream["read", coordinate]] += form.constant
    return class_token


def _networks(plan: Blueprint, stream: Stream, dimension: int) -> list[Network | None]:
    """After the first layer relu(gathered + 2·mark − 2): what was asked for passes, all else is 0."""
    idle = len(plan.layers) - 2
    if not plan.network:
        return [None] * (len(plan.layers) - 1)
    width = stream.width
    first, last = np.zeros((dimension, width)), np.zeros((width, dimension))
    for coordinate in range(dimension):
        first[coordinate, stream["gathered", coordinate]] = 1.0
        first[coordinate, stream["mark", coordinate]] = 2.0
        last[stream["kept", coordinate], coordinate] = 1.0
    keeping = Network((first, last), (np.full(dimension, -2.0), np.zeros(width)), "relu")
    nothing = Network((0 * first, 0 * last), (np.zeros(dimension), np.zeros(width)), "relu")
    return [keeping, *[nothing] * idle]


def _reading(readout: Readout, stream: Stream, dimension: int) -> Network:
    """F_0 of what was read, less the constant of the class token; other places are not looked at."""
    first = np.zeros((len(readout.biases[0]), stream.width))
    first[:, [stream["read", coordinate] for coordinate in range(dimension)]] = readout.weights[0]
    constant = first[:, stream[CLASS]] if CLASS in stream.places else 0.0
    return Network((first, *readout.weights[1:]), (readout.biases[0] - constant, *readout.biases[1:]), "relu")
