"""The `config.json` of a Hugging Face model: its shape, how it is read, and how many parameters it has."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headcount.errors import InvalidInput
from headcount.theory.model_window import window_of
from headcount.theory.plan import MAX_LAYERS, MAX_WIDTH, Family, SizedShape
from headcount.validation import check_integer, expected

FILE, UNKNOWN = "config.json", "unknown"
# The names of one number in configs of different kinds; the first that is there and not null counts.
NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("v_head_dim", "head_dim", "d_kv"),  # what a head passes on counts
    "width": ("hidden_size", "n_embd", "dim", "d_model"),
    "feedforward": ("intermediate_size", "n_inner", "hidden_dim", "d_ff", "ffn_dim", "encoder_ffn_dim"),
    "latent": ("kv_lora_rank",),
}
MAX = {"layers": MAX_LAYERS} | dict.fromkeys(("heads", "kv_heads", "head_dim", "width"), MAX_WIDTH)
MAX_SIZE = 10**9  # of anything else
DECODERS = {
    *(
        "bloom",
        "codegen",
        "cohere",
        "deepseek_v2",
        "deepseek_v3",
        "falcon",
        "gemma",
        "gemma2",
        "gemma3_text",
        "gpt2",
        "gpt_bigcode",
    ),
    *("gpt_neo", "gpt_neox", "gptj", "llama", "mistral", "mixtral", "mpt", "olmo", "olmo2", "openai-gpt"),
    *("opt", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3", "stablelm", "starcoder2"),
}
ENCODERS = {
    *("albert", "beit", "bert", "big_bird", "camembert", "deberta", "deberta-v2", "deit", "dinov2"),
    *("distilbert", "electra", "ernie", "esm", "longformer", "modernbert", "mpnet", "mt5", "nomic_bert"),
    *("nystromformer", "rembert", "roberta", "t5", "umt5", "vit", "xlm-roberta", "xlm-roberta-xl"),
}
ENCODER_CLASSES = ("ForMaskedLM", "ForPreTraining", "EncoderModel")
# Kinds with relative or rotary positions, and what such positions are called in configs of others.
RELATIVE = {"deberta", "deberta-v2", "longt5", "modernbert", "mpnet", "mt5", "nomic_bert", "t5", "umt5"}
RELATIVE_NAMES = (
    *("rope_theta", "rope_scaling", "rope_parameters", "global_rope_theta", "rotary_emb_base"),
    *("relative_attention", "relative_attention_num_buckets", "alibi"),
)
DECODER_CLASSES = ("ForCausalLM", "LMHeadModel")
GATED = {"llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "olmo"}


@dataclass(frozen=True)
class ModelConfig:
    """What a plan needs of a config.

    - `kind`: its `model_type`, such as `bert`.
    - `parameters`: of the whole model, as `transformers` counts those of `counted_as`; None where the kind is
      not known.
    - `window`: the tokens that a token sees at most in `window_layers` of the layers; None: all of its past,
      or all, in every layer.
    - `encoder_alone`: whether there is a decoder besides the encoder whose sizes these are.
    - `reading_known`: whether the config says that the model is an encoder or a decoder.
    - `relative`: whether its positions are relative or rotary.
    - `latent`: the numbers that keys and values are made from, where there are such.
    """

    kind: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    feedforward: int
    gated: bool
    decoder: bool
    window: int | None = None
    window_layers: int = 0
    encoder_alone: bool = False
    parameters: int | None = None
    counted_as: str | None = None
    reading_known: bool = True
    relative: bool = False
    latent: int | None = None

    def family(self, *, decoder: bool | None = None) -> Family:
        """Shapes like this one, with other heads; `decoder` where it is known better."""
        decoder = self.decoder if decoder is None else decoder
        return Family(
            width=self.width,
            head_dim=self.head_dim,
            feedforward=self.feedforward,
            decoder=decoder,
            whole=True,
            matrices=3 if self.gated else 2,
            # The last token of a decoder finds all D itself: those within the window of every layer.
            windowed=self.window is not None and not (decoder and self.window_layers == self.layers),
        )

    def sized(self, *, decoder: bool | None = None) -> SizedShape:
        """Its own shape."""
        family = self.family(decoder=decoder)
        return family.sized(family.shape(self.layers, self.heads, self.kv_heads))


def read_model_config(path: Path) -> ModelConfig:
    """The config in a file, or in the folder of a model."""
    return model_config(json_object(path, FILE), name=Path(path).name or str(path))


def json_object(path: Path, name_in_folder: str) -> dict[str, Any]:
    """The JSON object in a file, or in the file of that name in a folder."""
    try:
        file = Path(path)
        file = file / name_in_folder if file.is_dir() else file
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):  # also a name that no file can have
        raise InvalidInput(f"{path}: expected a JSON file, found something else or a damaged one") from None
    if not isinstance(content, dict):
        raise expected(str(path), "a JSON object", content)
    return content


def model_config(raw: dict[str, Any], *, name: str = FILE) -> ModelConfig:
    """The content of a config file, checked.

    >>> found = model_config({"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768,
    ...                       "vocab_size": 50257, "n_positions": 1024})
    >>> found.head_dim, found.parameters, found.counted_as
    (64, 124439808, 'GPT2LMHeadModel')
    """
    layers, heads, width = (_required(raw, field, name) for field in ("layers", "heads", "width"))
    head_dim = _found(raw, "head_dim", name)
    if head_dim is None and width % heads:
        wanted = f"a multiple of {_name(raw, 'heads')} = {heads}"
        raise expected(f"{name}: {_name(raw, 'width')}", wanted, width)
    kv_heads = _found(raw, "kv_heads", name) or heads
    if raw.get("multi_query") is True and not raw.get("new_decoder_architecture"):
        kv_heads = 1
    if heads % kv_heads:
        raise expected(f"{name}: {_name(raw, 'kv_heads')}", f"a divisor of the {heads} heads", kv_heads)
    kind = str(raw.get("model_type") or UNKNOWN)
    window, window_layers = window_of(raw, kind, layers=layers, name=name)
    found = ModelConfig(
        kind=kind,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width // heads if head_dim is None else head_dim,
        width=width,
        feedforward=_found(raw, "feedforward", name) or 4 * width,
        gated=kind in GATED or "gated" in str(raw.get("feed_forward_proj")),
        decoder=_is_decoder(raw, kind),
        window=window,
        window_layers=window_layers,
        encoder_alone=raw.get("is_encoder_decoder") is True,
        reading_known=_is_decoder(raw, kind) or _is_encoder(raw, kind),
        relative=_is_relative(raw, kind),
        latent=_found(raw, "latent", name),
    )
    if kind not in COUNTS:
        return found
    counted_as, count = COUNTS[kind]
    try:
        return replace(found, parameters=count(_Sizes(raw, found)), counted_as=counted_as)
    except LookupError:  # the config leaves out a number that the count needs
        return found


def _is_decoder(raw: dict[str, Any], kind: str) -> bool:
    if raw.get("is_encoder_decoder"):
        return False  # the sizes above are those of its encoder
    return kind in DECODERS or _is_made_as(raw, DECODER_CLASSES) or raw.get("is_decoder") is True


def _is_encoder(raw: dict[str, Any], kind: str) -> bool:
    return kind in ENCODERS or _is_made_as(raw, ENCODER_CLASSES) or raw.get("is_encoder_decoder") is True


def _is_made_as(raw: dict[str, Any], endings: tuple[str, ...]) -> bool:
    """Whether a class that the config names ends so."""
    classes = raw.get("architectures")
    named = [each for each in classes if isinstance(each, str)] if isinstance(classes, list) else []
    return any(each.endswith(endings) for each in named)


def _is_relative(raw: dict[str, Any], kind: str) -> bool:
    kind_of_positions = str(raw.get("position_embedding_type") or "absolute")
    named = any(raw.get(name) for name in RELATIVE_NAMES)
    return kind in RELATIVE or named or kind_of_positions not in ("absolute", "learned", "sinusoidal")


def _name(raw: dict[str, Any], field: str) -> str | None:
    """What the config calls this number; None where it has none."""
    return next((name for name in NAMES[field] if raw.get(name) is not None), None)


def _found(raw: dict[str, Any], field: str, file: str) -> int | None:
    name = _name(raw, field)
    if name is None:
        return None
    return check_integer(f"{file}: {name}", raw[name], at_least=1, at_most=MAX.get(field, MAX_SIZE))


def _required(raw: dict[str, Any], field: str, file: str) -> int:
    value = _found(raw, field, file)
    if value is None:
        first, *others = NAMES[field]
        hint = " (it has a text_config: give that as a file of its own)" if "text_config" in raw else ""
        raise InvalidInput(f"{file}: expected {first} (or {', '.join(others)}), found none of them{hint}")
    return value


class _Sizes:
    """What parameters are counted from: the shape of a model, and numbers of its config by their names."""

    def __init__(self, raw: dict[str, Any], model: ModelConfig) -> None:
        self._raw = raw
        self.layers, self.heads, self.head_dim = model.layers, model.heads, model.head_dim
        self.width, self.feedforward, self.gated = model.width, model.feedforward, model.gated
        self.joined, self.numbers = model.heads * model.head_dim, model.kv_heads * model.head_dim

    def __call__(self, name: str, default: int | None = None) -> int:
        """A number of the config, or the default of its class in transformers; else a `LookupError`."""
        value = self._raw.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or not 0 <= value <= MAX_SIZE:
            raise LookupError(name)
        return value


def _linear(inputs: int, outputs: int, bias: bool | int = True) -> int:
    return inputs * outputs + outputs * bool(bias)


def _block(size: _Sizes, *, query_bias: bool | int = True) -> int:
    """A layer with biases everywhere and two layer norms: BERT, ViT, GPT."""
    E, f = size.width, size.feedforward
    attention = 3 * _linear(E, E, query_bias) + _linear(E, E)
    return attention + _linear(E, f) + _linear(f, E) + 4 * E


def _bert(size: _Sizes) -> int:
    E = size.width
    rows = size("vocab_size") + size("max_position_embeddings") + size("type_vocab_size", 2)
    return rows * E + 2 * E + size.layers * _block(size) + _linear(E, E)


def _distilbert(size: _Sizes) -> int:
    rows = size("vocab_size") + size("max_position_embeddings")
    return rows * size.width + 2 * size.width + size.layers * _block(size)


def _vit(size: _Sizes) -> int:
    E, patch = size.width, size("patch_size", 16)
    if not patch:
        raise LookupError("patch_size")
    places = (size("image_size", 224) // patch) ** 2 + 1
    embedding = E + places * E + _linear(size("num_channels", 3) * patch**2, E)
    blocks = size.layers * _block(size, query_bias=size("qkv_bias", 1))
    return embedding + blocks + 2 * E + _linear(E, size("pooler_output_size", E))


def _gpt2(size: _Sizes) -> int:
    E, words = size.width, size("vocab_size")
    head = 0 if size("tie_word_embeddings", 1) else words * E
    return (words + size("n_positions")) * E + size.layers * _block(size) + 2 * E + head


def _gpt_neox(size: _Sizes) -> int:
    E, words = size.width, size("vocab_size")
    head = 0 if size("tie_word_embeddings", 0) else words * E
    bias_less = 0 if size("attention_bias", 1) else 4 * E
    return words * E + size.layers * (_block(size) - bias_less) + 2 * E + head


def _llama(
    size: _Sizes, *, query_bias: int | None = None, output_bias: int | None = None, head_norms: int = 0
) -> int:
    E, f, words = size.width, size.feedforward, size("vocab_size")
    bias = size("attention_bias", 0)
    query_bias = bias if query_bias is None else query_bias
    output_bias = bias if output_bias is None else output_bias
    attention = _linear(E, size.joined, query_bias) + 2 * _linear(E, size.numbers, query_bias)
    attention += _linear(size.joined, E, output_bias) + head_norms * size.head_dim
    network = 2 * _linear(E, f, size("mlp_bias", 0)) + _linear(f, E, size("mlp_bias", 0))
    head = 0 if size("tie_word_embeddings", 0) else words * E
    return words * E + size.layers * (attention + network + 2 * E) + E + head


def _t5(size: _Sizes) -> int:
    E, f = size.width, size.feedforward
    attention = 4 * E * size.joined
    network = (3 if size.gated else 2) * E * f
    buckets = size("relative_attention_num_buckets", 32) * size.heads
    return size("vocab_size") * E + size.layers * (attention + network + 2 * E) + buckets + E


COUNTS: dict[str, tuple[str, Callable[[_Sizes], int]]] = {
    "bert": ("BertModel", _bert),
    "roberta": ("RobertaModel", _bert),
    "xlm-roberta": ("XLMRobertaModel", _bert),
    "distilbert": ("DistilBertModel", _distilbert),
    "vit": ("ViTModel", _vit),
    "gpt2": ("GPT2LMHeadModel", _gpt2),
    "gpt_neox": ("GPTNeoXForCausalLM", _gpt_neox),
    "llama": ("LlamaForCausalLM", _llama),
    "mistral": ("MistralForCausalLM", lambda size: _llama(size, query_bias=0, output_bias=0)),
    "qwen2": ("Qwen2ForCausalLM", lambda size: _llama(size, query_bias=1, output_bias=0)),
    "qwen3": ("Qwen3ForCausalLM", lambda size: _llama(size, head_norms=2)),
    "t5": ("T5EncoderModel", _t5),
}
