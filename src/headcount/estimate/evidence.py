"""The estimate of a trained study: the verdict of its curves, adjusted for the other evidence.

Tokens that matter and pairs that collide may widen an interval or leave the result undecided. None of them
overrides a large fall of the curves.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from headcount.estimate.budget import Budget
from headcount.estimate.deciding import which_decides
from headcount.estimate.lengths import over_groups, over_two
from headcount.estimate.num_heads import shapes_of
from headcount.estimate.salience import FAINT, GOOD_FIT, QUANTILE, SALIENT, Salience, salience
from headcount.estimate.stages import heads_of, in_words
from headcount.estimate.study import Study
from headcount.estimate.verdict import (
    EARLY,
    FINAL,
    WIDEST,
    Estimate,
    decide,
    falls_far,
    recommended_heads,
    unsure,
    without_doubtful_retrieval,
)
from headcount.models.architecture import Architecture
from headcount.results.numbers import scientific
from headcount.theory.plan import counted
from headcount.trials.machine import this_machine

if TYPE_CHECKING:
    from headcount.estimate.collisions import CollisionGaps

SALIENT_SEQUENCES, SHOWN_SEQUENCES = 512, 3
POOLING = 0.8  # of the tokens: a target that depends on this share pools
NEAR = 2  # more tokens than D + this matter only to a target that pools
WIDER = 3  # times the gap of D heads: a gap of D − 1 heads that confirms D


def estimate_of(study: Study, *, d_model: int | None = None, minutes: float | None = None) -> Estimate:
    """The verdict of what is trained of a study, with all evidence.

    - `d_model`: the width of the user's own model.
    - `minutes`: the time that there was, where it was limited.
    """
    budget = budget_of(study, minutes)
    if not study.has_quick_sweep:
        reason = (
            "the time was up before all head counts had a first look. The same call with more time goes on "
            "from there, if its models were kept in a folder."
        )
        return Estimate(None, None, "cannot tell", None, {}, (), (), (reason,), budget=budget)
    matter = salience_of(study)
    faint = matter.counts(FAINT)
    share = float(np.median(faint / study.test_sequences(len(faint))[1].sum(axis=1)))
    curve = study.curve(study.deciding)
    found = replace(decide(curve, law=FINAL if study.has_sweep else EARLY), budget=budget)
    found = replace(found, deciding=which_decides(found))
    if found.dimension is not None:
        one = recommended_heads(1, curve)
        found = adjust_for_pooling(found, share, count=float(np.median(faint)), recommended=one)
    lowest = min((point.value for point in found.errors), default=np.inf)
    fits = not study.data.classes and lowest < GOOD_FIT
    tokens = matter.typical(SALIENT, QUANTILE)
    found = adjust_for_salience(found, tokens=tokens if fits else None, ids=bool(study.data.ids))
    pairs = _collisions(study, found)
    early = study.early_estimate()
    evidence: dict[str, Any] = {
        "early": {
            **{name: getattr(early, name) for name in ("dimension", "interval", "verdict")},
            "curve": [
                {"heads": error.heads, "error": error.value, "distance": distance.value}
                for error, distance in zip(early.errors, early.distances, strict=True)
            ],
        },
        "salience": {
            "threshold": SALIENT,
            "quantile": QUANTILE,
            "tokens": tokens,
            "fits_well_enough": fits,
            "share_of_tokens": share,
        },
        "collisions": [asdict(pair) for pair in pairs],
        "length": by_length(study),
    }
    found = without_doubtful_retrieval(adjust_for_collisions(found, pairs))
    found = replace(found, early_errors=early.errors, early_distances=early.distances)
    found = adjust_for_budget(found, study, early)
    found = replace(found, evidence=evidence, machine=this_machine().name)
    return with_shapes(found, d_model=d_model)


def with_shapes(found: Estimate, *, d_model: int | None) -> Estimate:
    """The estimate with the heads that D takes in models of several depths, and of this width."""
    dimension, recommended = found.dimension, found.recommended_heads
    if dimension is None or recommended is None:
        return replace(found, evidence={**found.evidence, "shapes": None})
    reasons = found.reasons
    if d_model is not None and d_model < recommended:
        reasons += (f"num_heads divides d_model, so {recommended} heads need a d_model above {d_model}.",)
    shapes = shapes_of(dimension, recommended=recommended, d_model=d_model)
    return replace(found, evidence={**found.evidence, "shapes": shapes}, reasons=reasons)


def budget_of(study: Study, minutes: float | None) -> Budget | None:
    """What a study was trained with; None where it was neither shortened nor limited."""
    left = study.next_stage()
    if left is None and minutes is None and not study.short:
        return None
    steps = study.deciding[0].training.steps if study.has_quick_sweep else 0
    in_full = study.has_sweep and not study.short
    complete = in_full and (left is None or left.trials == study.half_sweep().trials)
    not_begun = None if left is None else left.name
    return Budget(study.short, minutes, steps, study.recipe.steps, not_begun, complete)


def adjust_for_budget(found: Estimate, study: Study, early: Estimate) -> Estimate:
    """What can be estimated with less training than usual, by the rules that hold for all of it.

    D is only reported once its neighbours are trained and D − 1 heads have failed from other starts. After
    fewer steps it must also be the D of still fewer, as models that have not learnt enough yet look like ones
    with too few heads.
    """
    budget, dimension = found.budget, found.dimension
    if budget is None or budget.complete or dimension is None:
        return found
    if not study.has_sweep:
        return unsure(found, f"the time was up after a first look, which alone is a guess: D = {dimension}.")
    left = study.next_stage()
    missing = () if left is None else set(left.trials) - set(study.deciding)
    heads, seen = set(heads_of(missing)), set(heads_of(study.deciding))
    likely = f"D = {dimension} is the likeliest, but the time was up before"
    if heads - seen:
        return unsure(found, f"{likely} {in_words(heads - seen)} had been trained, which D may be, too.")
    if dimension - 1 in heads:
        return unsure(found, f"{likely} {in_words([dimension - 1])} had been tried from other starts.")
    if study.short and early.likeliest != dimension:
        before = study.quick_sweep().trials[0].training.steps
        reason = (
            f"D seemed {early.likeliest} after {before:,} steps and {dimension} after {budget.steps:,}, so "
            "it may change again with more: train in full to decide."
        )
        return unsure(found, reason)
    return found


def salience_of(study: Study) -> Salience:
    """The tokens that matter to the best of the widest members."""
    return salience(study.best(None)[1], *study.test_sequences(SALIENT_SEQUENCES))


def by_length(study: Study) -> dict[str, Any] | None:
    """How the error grows with the length, per number of heads, where lengths differ or can be varied."""
    if study.half is not None:
        if study.next_stage() is not None:
            return None
        shorter = replace(study, data=study.half, half=None)
        errors = (
            each.curve(stage.trials).errors()
            for each, stage in ((shorter, study.half_sweep()), (study, study.quick_sweep()))
        )
        return over_two(*errors, lengths=(study.half.length, study.data.length))
    if study.test.mask is None:
        return None
    lengths = np.asarray(study.test.mask)[0].sum(axis=1)
    targets = None if study.data.classes else np.asarray(study.test.y)[0]
    return over_groups(study.curve(study.deciding), lengths, targets)


def attention(study: Study, heads: int | None) -> tuple[Architecture, Float[np.ndarray, "sample head token"]]:
    """The best member with this many heads (None: with the most), and its attention on a few sequences."""
    trial, model = study.best(heads)
    x, mask = study.test_sequences(SHOWN_SEQUENCES)
    look = jax.jit(jax.vmap(lambda x, mask: model.attention_weights(x, mask=mask)))
    weights = look(jnp.asarray(x), jnp.asarray(mask))
    return trial.architecture, np.nan_to_num(np.asarray(weights))


def _collisions(study: Study, found: Estimate) -> "tuple[CollisionGaps, ...]":
    """The gaps of D − 1 and of D heads, where the interval has more than one value."""
    dimension = found.dimension or 1
    in_doubt = found.interval is not None and found.interval[0] < found.interval[1]
    if dimension == 1 or not in_doubt:
        return ()
    # Half of the theory comes with it, and most estimates do not need it.
    from headcount.estimate.collisions import SEQUENCES, can_be_moved, collision_gaps

    if not can_be_moved(study.data):
        return ()
    wide, (x, _) = study.best(None)[1], study.test_sequences(SEQUENCES)
    return tuple(collision_gaps(study.best(heads)[1], wide, x) for heads in (dimension - 1, dimension))


def adjust_for_pooling(found: Estimate, share: float, *, count: float, recommended: int) -> Estimate:
    """What it means that this share of all tokens, `count` of them, matters: the target pools.

    Where its curves fall a little, more heads approximate the pooling better, and one head is enough. Where
    they fall far it retrieves beside: an average takes a head of its own in a model whose other heads are
    sharp, so it counts as one of D, and the interval holds D − 1. In a sequence hardly longer than D, nearly
    all tokens matter to retrieval too. `recommended`: how many heads to give it if one is enough.
    """
    if found.dimension is None or found.dimension == 1 or share < POOLING or count <= 2 * found.dimension:
        return found
    matter = f"{share:.0%} of the tokens matter at once"
    if _falls_far(found):
        averages = (
            f"{matter}, so the target averages over its sequence; that takes a head of its own, or a share "
            "of others"
        )
        with_and_without = f"D is {found.dimension} with the average and {found.dimension - 1} without it"
        reason = f"{averages}: {with_and_without}, and the interval includes both."
        alone = (
            f"{averages}: retrieval alone would be {found.dimension - 1}, and the average takes the other; "
            f"the curves fall too far for D = {found.dimension - 1}."
        )
        return replace(with_dimension(found, found.dimension - 1, reason, too_far=alone), pools=True)
    reason = (
        f"{matter}, so the target pools over its sequence and retrieves nothing; that the error still falls "
        f"at {found.dimension} heads is an effect of model size."
    )
    return replace(
        found,
        dimension=1,
        interval=(1, 1),
        verdict="one head is enough",
        deciding="",
        recommended_heads=recommended,
        probabilities={heads: float(heads == 1) for heads in {1, *found.probabilities}},
        reasons=(reason, *found.reasons),
    )


def adjust_for_salience(found: Estimate, *, tokens: int | None, ids: bool = False) -> Estimate:
    """Widen the interval to the number of tokens that matter, where that is not D.

    A number far above D belongs to a target that pools, and says nothing about D. One far below D means that
    members with few heads have not learnt what few heads could retrieve: then the answer is "cannot tell".
    With integer tokens (`ids`) that happens even where the curves fall far.
    """
    if found.dimension is None or found.interval is None or tokens is None:
        return found
    if tokens == found.dimension or tokens > found.dimension + NEAR:
        return found
    matter = "token of a sequence matters" if tokens == 1 else "tokens of a sequence matter at once"
    both = f"{tokens} {matter}, but the sweep gives D = {found.dimension}"
    included, reached = f"{both}; the interval includes both.", _lowest_possible(found, however_far=ids)
    nearest = f"{both}; the curves fall too far for less than {reached}, where the interval begins."
    wider = with_dimension(found, tokens, included, too_far=nearest, however_far=ids)
    low, high = wider.interval or found.interval
    if high - low < WIDEST:
        return wider
    reason = f"{both}. Longer training, more data or other features may reconcile the two."
    return unsure(wider, reason)


def adjust_for_collisions(found: Estimate, pairs: "Sequence[CollisionGaps]") -> Estimate:
    """Compare the pairs that D − 1 and D heads cannot distinguish.

    Far wider gaps below D confirm it; where they are not wider, the interval includes D − 1 too.
    """
    if found.dimension is None or len(pairs) != 2 or min(pair.agreed for pair in pairs) == 0:
        return found
    below, enough = pairs
    gaps = (
        f"the targets of two sequences that {counted(below.heads, 'head')} cannot distinguish are typically "
        f"{scientific(below.typical_gap)} standard deviations apart, and {scientific(enough.typical_gap)} "
        f"with {enough.heads}"
    )
    if below.typical_gap >= WIDER * enough.typical_gap:
        return replace(found, reasons=(*found.reasons, f"{gaps}: that confirms D = {found.dimension}."))
    too_far = f"{gaps}, which leaves D = {below.heads} possible; but the curves fall too far for that."
    return with_dimension(found, below.heads, f"{gaps}: D = {below.heads} remains possible.", too_far=too_far)


def with_dimension(
    found: Estimate, dimension: int, reason: str, *, too_far: str, however_far: bool = False
) -> Estimate:
    """The estimate with one more dimension in its interval; 1 only where the curves do not fall far.

    `too_far` is the reason in place of `reason` where they do, so that no reason contradicts the interval.
    """
    assert found.interval is not None
    low, high = found.interval
    nearest = max(dimension, _lowest_possible(found, however_far=however_far))
    return replace(
        found,
        interval=(min(low, nearest), max(high, dimension)),
        reasons=(*found.reasons, reason if nearest == dimension or low <= dimension else too_far),
    )


def _lowest_possible(found: Estimate, *, however_far: bool) -> int:
    return 2 if _falls_far(found) and not however_far else 1


def _falls_far(found: Estimate) -> bool:
    """Whether the curves fall so far at D that one head cannot be enough."""
    if found.dimension in (None, 1) or found.dimension not in found.probabilities or not found.distances:
        return False
    return falls_far(found.errors, found.distances, found.dimension or 0, labels=found.labels)
