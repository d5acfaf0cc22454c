"""The page of an estimate whose curves are made up."""

from dataclasses import replace

import numpy as np
import pandas as pd
from believable_curves import sweep

from headcount.data.arrays import data_set
from headcount.estimate.curve import Point
from headcount.estimate.evidence import with_shapes
from headcount.estimate.verdict import decide
from headcount.models.architecture import Architecture
from headcount.report.estimation import Pictures, page_of

RANDOM = np.random.default_rng(0)
COMMAND = "headcount estimate a/folder/with/a/long/name/and-data.npz --out estimate --max-heads 8 --seed 0"


def believable_estimate(*, labels=False, noise=0.3, in_full=(1, 2, 3, 4, 7, 8)):
    """D = 3, with two head counts that were not trained in full, and all evidence."""
    found, early = decide(sweep(3, heads=in_full, noise=noise)), decide(sweep(3, sharpness=0.1, noise=noise))
    slopes = [{"heads": h, "slope": 1.0, "interval": [0.5, 1.5]} for h in in_full]
    gaps = [
        {"heads": h, "typical_gap": g, "largest_gap": 2 * g, "agreed": 9, "tried": 16}
        for h, g in ((2, 0.3), (3, 1e-3))
    ]
    evidence = {
        "salience": {"tokens": 4, "fits_well_enough": True, "share_of_tokens": 0.25},
        "collisions": gaps,
        "length": {"lengths": [8, 16], "slopes": slopes},
    }
    accuracies = tuple(Point(h, 0.9, 0.88, 0.92) for h in in_full) if labels else ()
    found = replace(
        found,
        labels=labels,
        accuracies=accuracies,
        early_errors=early.errors,
        early_distances=early.distances,
        deciding="The distance decides, not the error: the 2% that are furthest off.",
        evidence=evidence,
    )
    return with_shapes(found, d_model=512), early


def write_believable_page(path, *, length=16, **options):
    found, early = believable_estimate(**options)
    x = RANDOM.normal(size=(300, length, 3))
    data = replace(data_set(x, x.max(axis=1).sum(axis=1)), doubts=("x: 90% of the sequences end in 0",))
    weights = RANDOM.dirichlet(np.ones(length), size=(3, 3))
    frame = pd.DataFrame(
        {"status": "ok", "device": "a CPU", "precision": "float32", "versions": "0", "seconds": [1.0, 2.0]}
    )
    pictures = Pictures(RANDOM.integers(2, 6, size=200), weights)
    member = Architecture(token_dim=3, heads=3, head_dim=8)
    path.write_text(page_of(found, early, data, member, pictures, frame, command=COMMAND)())
    return found
