"""By how much the loss rises with fewer key-value heads, for each count and each way to group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headcount.theory.shape import Shape
from headcount.trained.attention import AttentionBlock
from headcount.trained.regrouping import Grouped, check_counts, grouped, metrics_of
from headcount.trained.rise import Rise
from headcount.trained.sharing import LayerMetric, Method

if TYPE_CHECKING:
    from headcount.trained.count import Study

# The first is what a plan takes; the others are held against it. The mean is over neighbours, as published.
WAYS: tuple[tuple[Method, bool], ...] = (
    ("joint", True),
    ("procrustes", True),
    ("mean", True),
    ("mean", False),
)

KEYS_STAY = (
    "Values alone are shared: norms on queries and keys, a rotary embedding of a part of each head, or one "
    "map for queries, keys and values leave no room for shared keys. No config holds fewer values than keys, "
    "so `headcount shrink` writes such a model as code or export; it repeats values before it caches them, "
    "and its cache is no smaller."
)


@dataclass(frozen=True)
class KvCount:
    """A number of key-value heads in every layer, made in one way.

    - `judged`, `reported`: the rise of the loss on the samples that decide, and on others.
    """

    kv_heads: int
    method: Method
    refit: bool
    judged: Rise
    reported: Rise

    def to_json(self) -> dict[str, Any]:
        """An entry of inspect.json."""
        rise = {"judged": self.judged.to_json(), "reported": self.reported.to_json()}
        return {"kv_heads": self.kv_heads, "method": self.method, "refit": self.refit, "rise": rise}


@dataclass(frozen=True, eq=False)
class KvCounts:
    """All counts that were asked for.

    - `laws`: of every count, what passes through so many key-value heads.
    - `values_only`: whether keys stay as they are, one for each key-value head that there was.
    - `planned`: the smallest count whose rise stays within the tolerance; None where no one's does.
    """

    rows: tuple[KvCount, ...]
    laws: tuple[str, ...]
    values_only: bool
    planned: Grouped | None = field(repr=False)

    def of(self, kv_heads: int) -> dict[tuple[Method, bool], KvCount]:
        """The ways to make one count."""
        return {(row.method, row.refit): row for row in self.rows if row.kv_heads == kv_heads}

    @property
    def said(self) -> str:
        """What is shared, and where that matters."""
        return KEYS_STAY if self.values_only else ""

    @property
    def counts(self) -> list[int]:
        """The largest first."""
        return list(dict.fromkeys(row.kv_heads for row in self.rows))


def checked_metrics(study: "Study", counts: Sequence[int]) -> tuple[LayerMetric, ...]:
    """What grouping needs; one line where the model cannot have one of these counts."""
    metrics = metrics_of(study.whole, study.targets.batches)
    for kv_heads in counts:
        check_counts(study.blocks, metrics, kv_heads)
    return metrics


def kv_counts(
    study: "Study", metrics: Sequence[LayerMetric], counts: Sequence[int], note: Callable[[str], None]
) -> KvCounts:
    """Make every count in every way, and try it on samples that it was not fitted to.

    The plan goes down as long as every larger count stayed within the tolerance.
    """
    rows, planned, within = [], None, True
    ordered = sorted(set(counts), reverse=True)
    for kv_heads in ordered:
        note(f"{kv_heads} key-value heads a layer")
        for method, refit in WAYS:
            made = grouped(
                study.whole,
                study.targets,
                kv_heads,
                method=method,
                refit=refit,
                choose=method != "mean",
                metrics=metrics,
            )
            judged, reported = (
                study.rise(measure.rises(made.model)) for measure in (study.judging, study.reporting)
            )
            rows.append(KvCount(kv_heads, method, refit, judged, reported))
            if (method, refit) == WAYS[0]:
                within = within and judged.high <= study.tolerance
                planned = made if within else planned
    laws = tuple(law_of(study.blocks, each) for each in ordered)
    return KvCounts(tuple(rows), laws, metrics[0].values_only, planned)


def law_of(blocks: Sequence[AttentionBlock], kv_heads: int) -> str:
    """What the law of `headcount plan` says of so many key-value heads in each of these layers."""
    least = min(blocks, key=lambda block: block.head_dim)
    shapes = [
        Shape(layers=len(blocks), heads=least.heads, kv_heads=each, head_dim=least.head_dim)
        for each in (kv_heads, least.kv_heads)
    ]
    return (
        f"{kv_heads} key-value heads of {least.head_dim} numbers pass on {shapes[0].numbers} numbers a layer "
        f"(now {shapes[1].numbers}): enough for a task of D <= {shapes[0].numbers}, since a layer needs "
        "kv_heads * n >= D."
    )
