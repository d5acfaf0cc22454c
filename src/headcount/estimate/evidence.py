"""The estimate of a trained study: the verdict of its curves, adjusted for the other evidence."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from headcount.estimate.adjustments import adjust_for_collisions, adjust_for_pooling, adjust_for_salience
from headcount.estimate.lengths import over_groups, over_two
from headcount.estimate.salience import FAINT, GOOD_FIT, QUANTILE, SALIENT, Salience, salience
from headcount.estimate.study import Study
from headcount.estimate.verdict import Estimate, decide, recommended_heads, without_doubtful_retrieval
from headcount.models.architecture import Architecture
from headcount.theory.plan import heads_by_layers
from headcount.trials.machine import this_machine

if TYPE_CHECKING:
    from headcount.estimate.collisions import CollisionGaps

SALIENT_SEQUENCES, SHOWN_SEQUENCES = 512, 3


def estimate_of(study: Study) -> Estimate:
    """The verdict of the whole sweep, with all evidence."""
    matter = salience_of(study)
    faint = matter.counts(FAINT)
    share = float(np.median(faint / study.test_sequences(len(faint))[1].sum(axis=1)))
    curve = study.curve(study.sweep().trials)
    found = decide(curve)
    if found.dimension is not None:
        one = recommended_heads(1, curve)
        found = adjust_for_pooling(found, share, count=float(np.median(faint)), recommended=one)
    lowest = min((point.value for point in found.errors), default=np.inf)
    fits = not study.data.classes and lowest < GOOD_FIT
    tokens = matter.typical(SALIENT, QUANTILE)
    found = adjust_for_salience(found, tokens=tokens if fits else None)
    pairs = _collisions(study, found)
    early = study.early_estimate()
    evidence: dict[str, Any] = {
        "early": {"dimension": early.dimension, "interval": early.interval, "verdict": early.verdict},
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
    evidence["shapes"] = None if found.dimension is None else heads_by_layers(found.dimension)
    return replace(found, evidence=evidence, machine=this_machine().name)


def salience_of(study: Study) -> Salience:
    """The tokens that matter to the best of the widest members."""
    return salience(study.best(None)[1], *study.test_sequences(SALIENT_SEQUENCES))


def by_length(study: Study) -> dict[str, Any] | None:
    """How the error grows with the length, per number of heads, where lengths differ or can be varied."""
    if study.half is not None:
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
    return over_groups(study.curve(study.sweep().trials), lengths, targets)


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
