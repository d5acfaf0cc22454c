"""The answer of a plan in words and as JSON: shapes for a D, or what the shape of a model reaches."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from headcount.theory.capacity import MAPPED_SHARED, capacity
from headcount.theory.mapped import behind, ends_of_maps
from headcount.theory.model_config import COUNTS, UNKNOWN, ModelConfig
from headcount.theory.plan import Depth, Family, SizedShape, counted, in_a_sentence
from headcount.validation import shown
from headcount.version import __version__

CONDITIONS = (
    "The weights are for ReLU networks of any size before the first layer and after the last, residual "
    "layers without layer norm, logits of any scale beta, one-hot positions and float64; real models differ."
)
ANY_FUNCTIONS = (
    "Key-value numbers are counted for any f_i and F_0: where F_0 is a sum, or the f_i depend on each other, "
    "fewer can be enough."
)


@dataclass(frozen=True)
class PlanAnswer:
    """What was asked and what was found.

    - `dimension`: D; None where only a model was given.
    - `depths`: the smallest shapes that reach D.
    - `model`: the model that was asked about; None where only D was given.
    - `taken_for_encoder`: neither the config nor the user says how the model is read.
    """

    dimension: int | None
    family: Family
    depths: Sequence[Depth]
    model: ModelConfig | None = None
    taken_for_encoder: bool = False

    @cached_property
    def own(self) -> SizedShape | None:
        """The shape of the model."""
        return None if self.model is None else self.model.sized(decoder=self.family.decoder)

    @property
    def shapes(self) -> list[SizedShape]:
        """All shapes that were found, those of few layers first."""
        return [shape for depth in self.depths for shape in depth.shapes]

    @property
    def sentence(self) -> str:
        """The answer in a sentence, or in two."""
        if self.own is None:
            assert self.dimension is not None, "one of both is given"
            return in_a_sentence(self.dimension, self.depths, family=self.family)
        constructed, learnt = self.own.reach.constructed, self._learnt(self.own)
        exist = f"weights exist for D up to {constructed}{' with full attention' * self.family.windowed}"
        if self.dimension is None:
            return f"{exist[0].upper()}{exist[1:]}. {learnt}"
        asked = f"D = {self.dimension}"
        if self.dimension > constructed:
            found = f"{asked} is beyond what is built here for this shape: {exist}. {learnt}"
        elif self.dimension <= self.own.reach.trained and self.own.behind(self.dimension) == "mapped":
            found = f"{asked} is within reach: such a shape or a smaller one learnt it, and {exist}."
        else:
            found = f"{asked} is within reach by construction only: {exist}. {learnt}"
        return f"{found} {in_a_sentence(self.dimension, self.depths)}"

    def _learnt(self, own: SizedShape) -> str:
        """What trained models of such a shape reached, and no more than that."""
        if behind(own.shape, own.reach.trained) == "mapped":
            reached = f"best trained models of such a shape reached D = {own.reach.trained}"
            if not self.family.windowed:
                return f"The {reached}."
            return f"With full attention the {reached}; none was trained with such windows."
        layers, most = ends_of_maps(own.shape)
        return (
            f"No such shape was trained; the maps end at {counted(layers, 'layer')} and D = {most}. "
            f"The same law would give {own.reach.trained}."
        )

    @property
    def notes(self) -> list[str]:
        """What the numbers of the shapes mean, and what they rest on."""
        family = self.family
        reader = (
            "a decoder, read at its last token"
            if family.decoder
            else "an encoder with a class token that reads in every layer"
        )
        width = "h·n" if family.width is None else family.width
        network = "4·E" if family.feedforward is None else family.feedforward
        about = f"{reader[0].upper()}{reader[1:]}; width E = {width}, feed-forward networks of {network}."
        conditions = [] if self.model is None else [CONDITIONS]
        model = [*self._parts(), *self._window(), *self._relative()]
        return [
            about,
            *model,
            *conditions,
            *self._numbers(),
            *self._shared(),
            *self._width(),
            *self._with_positions(),
        ]

    def _parts(self) -> list[str]:
        """What of the model the numbers leave out, or take for granted."""
        if self.model is None:
            return []
        notes = []
        if self.model.encoder_alone:
            notes.append(
                "This model is an encoder and a decoder: shape and numbers are those of the encoder alone."
            )
        if self.taken_for_encoder:
            notes.append("This model is taken for an encoder; --decoder if it is not.")
        if self.model.latent is not None:
            notes.append(
                f"Its keys and values pass through {counted(self.model.latent, 'number')} per token; D "
                "and the costs here ignore that."
            )
        return notes

    def _window(self) -> list[str]:
        """That tokens do not see all others, in all layers or in some."""
        model = self.model
        if model is None or not model.window:
            return []
        if model.window_layers == model.layers and self.family.decoder:
            return [
                f"Tokens see {counted(model.window, 'token')} at most; D is what lies within that window."
            ]
        which = f"{model.window_layers} of its {counted(model.layers, 'layer')}"
        if model.window_layers == model.layers:
            which = f"each of its {model.layers} layers" if model.layers > 1 else "its only layer"
        return [
            f"In {which} tokens see a window of {counted(model.window, 'token')} or less, not all; the "
            "numbers are for full attention in every layer."
        ]

    def _relative(self) -> list[str]:
        """That the weights take absolute positions, or none, in an encoder that has others."""
        if self.model is None or self.own is None or not self.model.relative or self.family.decoder:
            return []
        note = "The weights take absolute positions or none; this model has relative or rotary ones"
        blind = capacity(**{**vars(self.own.shape), "positions": False, "feedforward": False}).constructed
        if blind == self.own.reach.constructed:
            return [f"{note}."]
        return [f"{note}. Without positions they exist for D up to {blind}."]

    def _numbers(self) -> list[str]:
        """That fewer key-value numbers may do, where their count decides."""
        binds = self.own is not None and "kv·n" in self.own.reach.law
        return [ANY_FUNCTIONS] if binds or any(each.shape.kv_heads > 1 for each in self.shapes) else []

    def _shared(self) -> list[str]:
        """That fewer key-value heads than heads are a guess, where heads of their own are not."""
        if self.dimension is None:
            return []
        if not any("kv" in each.training(self.dimension) for each in self.shapes):
            return []
        return [
            "kv is the fewest key-value heads by the law; fewer of them than heads were trained only up to "
            f"D = {MAPPED_SHARED}."
        ]

    def _width(self) -> list[str]:
        """That the width binds, where it leaves depths without a shape."""
        missing = [depth.layers for depth in self.depths if not depth.shapes]
        if not missing or self.dimension is None or self.family.width is None:
            return []
        most = max(self.family.most(self.dimension, layers=layers) for layers in missing)
        found = f"D = {most} at most" if most else "no D"
        return [
            f"The width binds: such shapes with E = {self.family.width} reach {found}, whatever their heads."
        ]

    def _with_positions(self) -> list[str]:
        """Shapes with fewer heads, if tokens see positions and use their feed-forward networks."""
        if self.dimension is None or self.family.whole:
            return []
        whole = replace(self.family, whole=True)
        for depth in self.depths:
            fewer = whole.smallest(self.dimension, layers=depth.layers, behind="constructed")
            known = depth.constructed
            if fewer is not None and (known is None or fewer.shape.heads < known.shape.heads):
                heads, layers = counted(fewer.shape.heads, "head"), counted(depth.layers, "layer")
                return [
                    f"The laws count on neither positions nor feed-forward networks (whose costs are in the "
                    f"table); with both, weights exist for {heads} in {layers} already."
                ]
        return []

    def to_json(self) -> dict[str, Any]:
        """What `headcount plan --json` prints."""
        content: dict[str, Any] = {
            "sentence": self.sentence,
            "dimension": self.dimension,
            "decoder": self.family.decoder,
        }
        if self.model is not None and self.own is not None:
            content["model"] = {**asdict(self.model), "decoder": self.family.decoder}
            content["reached"] = {
                **self.own.to_json(),
                "parameters": self.model.parameters,
                "parameters_of_layers": self.own.costs.parameters,
            }
        content["shapes"] = [self._shape_to_json(shape) for shape in self.shapes]
        content["notes"] = self.notes
        content["version"] = __version__
        return content

    def _shape_to_json(self, shape: SizedShape) -> dict[str, Any]:
        assert self.dimension is not None, "shapes are for a D"
        how_sure = {"weights": shape.weights(self.dimension), "training": shape.training(self.dimension)}
        return {**shape.to_json(), **how_sure}

    def about_model(self) -> list[tuple[str, str]]:
        """The shape of the model, what it reaches and what it costs."""
        model, own = self.model, self.own
        if model is None or own is None:
            return []
        return [
            ("shape", _sizes(own) + (f" ({model.kind})" if model.kind != UNKNOWN else "")),
            ("constructed", f"D = {own.reach.constructed} by {own.reach.law}"),
            (
                "trained (guessed)" if own.guessed else "trained",
                f"D = {own.reach.trained} by {own.trained_law}",
            ),
            ("parameters", _parameters(model, own)),
            (
                "multiply-adds per token",
                f"{own.costs.multiply_adds:,} in its layers, "
                f"and {own.costs.multiply_adds_in_view:,} for each token in view",
            ),
            ("key-value cache per token", f"{own.costs.cache:,} numbers"),
        ]


def _parameters(model: ModelConfig, own: SizedShape) -> str:
    if model.parameters is not None:
        return f"{model.parameters:,} ({model.counted_as} of transformers)"
    layers = f"{own.costs.parameters:,} in attention and feed-forward"
    if model.kind == UNKNOWN:
        return f"{layers}; others are not counted without a model_type"
    if model.kind in COUNTS:
        return f"{layers}; for others the config leaves out a number"
    return f"{layers}; parameters of model_type {shown(model.kind)} are not counted"


def _sizes(sized: SizedShape) -> str:
    shape = sized.shape
    return (
        f"{counted(shape.layers, 'layer')} × {counted(shape.heads, 'head')} × "
        f"{counted(shape.kv_heads, 'key-value head')} × {counted(shape.head_dim, 'number')}"
    )
