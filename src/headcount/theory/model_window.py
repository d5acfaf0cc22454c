"""How far the tokens of a Hugging Face model see: the window of its layers, and how many layers have it."""

from collections.abc import Callable, Mapping
from typing import Any

from headcount.validation import check_integer, expected

LARGEST = 10**9  # tokens
# The names of a window in configs of different kinds; the first that is there and not null counts.
NAMES = ("attention_window", "local_attention", "sliding_window")
WINDOW_TYPES = ("sliding_attention", "local")
# Of so many layers one sees all, in kinds whose configs may leave that out.
PATTERNS = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
GPT_NEO_WINDOW = 256

Raw = Mapping[str, Any]


def window_of(raw: Raw, kind: str, *, layers: int, name: str) -> tuple[int | None, int]:
    """The most tokens that a token sees in a layer with a window, and how many layers have one; None, 0: all.

    >>> window_of({"sliding_window": 512, "sliding_window_pattern": 6}, "gemma3_text", layers=26, name="")
    (512, 22)
    """
    size = _size(raw, kind, layers, name)
    windowed = 0 if size is None else _layers_with_window(raw, kind, layers, name)
    return (size, windowed) if windowed else (None, 0)


def _size(raw: Raw, kind: str, layers: int, file: str) -> int | None:
    if not raw.get("use_sliding_window", True):
        return None
    if kind == "gpt_neo":
        return _tokens(f"{file}: window_size", raw.get("window_size", GPT_NEO_WINDOW))
    found = next((name for name in NAMES if raw.get(name) is not None), None)
    if found is None:
        return None
    value = raw[found]
    if not isinstance(value, list):
        return _tokens(f"{file}: {found}", value)
    if len(value) != layers:
        raise expected(f"{file}: {found}", f"an integer or {layers} of them, one for each layer", value)
    return max(_tokens(f"{file}: {found}", each) for each in value)


def _tokens(name: str, value: object) -> int:
    return check_integer(name, value, at_least=1, at_most=LARGEST)


def _layers_with_window(raw: Raw, kind: str, layers: int, file: str) -> int:
    """By the list of what each layer is, else by a rule of the config or of its kind, else all."""
    for name in ("layer_types", "attention_layers"):
        if raw.get(name) is not None:
            return _listed(f"{file}: {name}", raw[name], layers)
    rules: dict[str, Callable[[int], int]] = {
        "global_attn_every_n_layers": lambda every: layers - -(-layers // every),  # the first one sees all
        "sliding_window_pattern": lambda every: layers - layers // every,  # the last one does
        "_sliding_window_pattern": lambda every: layers - layers // every,
        "max_window_layers": lambda full: max(0, layers - full),
    }
    for name, rule in rules.items():
        if raw.get(name) is not None:
            least = 0 if name == "max_window_layers" else 1
            return rule(check_integer(f"{file}: {name}", raw[name], at_least=least, at_most=LARGEST))
    return layers - layers // PATTERNS[kind] if kind in PATTERNS else layers


def _listed(name: str, kinds: object, layers: int) -> int:
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise expected(name, f"a list of {layers} names, one for each layer", kinds)
    return sum(each in WINDOW_TYPES for each in kinds)
