"""What is quoted about a vision transformer on its way from training to a smaller model."""

from collections.abc import Iterator
from typing import Any

from quoting import NOT_RUN, RESULTS, read_json, table

FILE = "inspect-vit.json"
STEPS = ("train", "inspect", "small", "smaller", "shared")
LATENCY = "latency at "


def step(name: str) -> str:
    """A command, what it printed, and how long it took."""
    if not (RESULTS / FILE).exists():
        return NOT_RUN
    found = read_json(FILE)["steps"][name]
    text = "\n".join([f"$ {found['command']}", *found["printed"]])
    return f"```\n{text}\n```\n\n({found['seconds']:.0f} s.)"


def models() -> str:
    """What each smaller model keeps, loses and wins."""
    if not (RESULTS / FILE).exists():
        return NOT_RUN
    found = read_json(FILE)
    whole = ("`vit`, as trained", f"{found['heads']} heads", "all", f"{found['accuracy']:.1%}", "–")
    times = [name.removeprefix(LATENCY) for name in _times(found["models"]["small"])]
    names = ("model", "keeps", "parameters", "accuracy", "points lost", *(f"time, {each}" for each in times))
    rows = _rows(found)
    shown = table(names, [[*whole, *("–" for _ in times)], *rows])
    return f"{_in_short(found)}\n\n{shown}\n\n{_about(found)}"


def _in_short(found: dict[str, Any]) -> str:
    """What the model with the fewest heads lost and won."""
    model, kept = found["models"]["smaller"], found["solutions"]["free"]["heads"]
    timed = model["gains"]["latencies"][-1]
    change = f"takes {abs(1 - timed['ratio']):.0%} {'less' if timed['ratio'] < 1 else 'more'} time"
    if timed["verdict"] == "no gain":
        change = "takes no less time"
    return (
        f"With {kept} of {found['heads']} heads the model loses {_lost(model)} points of accuracy, and "
        f"a batch of {timed['samples']} images\n{change}. What is left was refitted, not trained."
    )


def _lost(model: dict[str, Any]) -> str:
    return f"{model['lost']:.1f} ± {model['half_width']:.1f}"


def _rows(found: dict[str, Any]) -> Iterator[list[str]]:
    for name, model in found["models"].items():
        keeps, parameters = found["steps"][name]["printed"][1].rstrip(".").split(", ")
        cells = (keeps, parameters.removesuffix(" parameters"), f"{model['accuracy']:.1%}", _lost(model))
        yield [f"`{name}`", *cells, *_times(model).values()]


def _times(model: dict[str, Any]) -> dict[str, str]:
    """Against the whole model, by batch size."""
    return {name: said for name, _, _, said in model["gains"]["rows"] if name.startswith(LATENCY)}


def _about(found: dict[str, Any]) -> str:
    gains = found["models"]["small"]["gains"]
    share = gains["before"]["attention_share"]
    return (
        f"Accuracy on {found['test_images']} test images that decided nothing; points lost ± 95%, paired. "
        f"Time as a share of\nthat of `vit`, with 95% bounds ({gains['device']}, {gains['precision']}). "
        f"Attention is {share:.0%} of the multiply-adds of `vit`.\n({found['machine']}.)"
    )
