"""The page of an estimate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.data.arrays import DataSet
from headcount.estimate.verdict import Estimate
from headcount.models.architecture import Architecture
from headcount.report.estimate_charts import (
    attention_chart,
    convergence_chart,
    deciding_chart,
    salience_chart,
)
from headcount.report.rendering import facts, rendered
from headcount.results.files import write_whole

USUAL_HEADS = (8, 12)
HEAD_SIZE = 8  # numbers per head in the table of costs, as in the paper


@dataclass(frozen=True, eq=False)
class Pictures:
    """What the page shows beside the curves.

    - `counts`: how many tokens of each sequence matter.
    - `weights`: attention of the recommended member, for a few sequences.
    """

    counts: Float[np.ndarray, " sample"]
    weights: Float[np.ndarray, "sample head token"]


def write_estimate(
    found: Estimate,
    early: Estimate,
    data: DataSet,
    member: Architecture,
    pictures: Pictures,
    frame: pd.DataFrame,
    path: Path,
    *,
    command: str,
) -> None:
    """Write the page, atomically."""
    page = rendered(
        "estimate.html",
        title=f"How many heads does {data.name} need?",
        findings=[found.sentence],
        reasons=found.reasons,
        early=early.sentence,
        deciding=deciding_chart(found.errors, found.distances, dimension=found.dimension).to_dict(),
        counts=salience_chart(pictures.counts, dimension=found.dimension).to_dict(),
        convergence=convergence_chart(pictures.counts).to_dict(),
        attention=attention_chart(pictures.weights).to_dict(),
        collisions=found.evidence.get("collisions"),
        length=found.evidence.get("length"),
        costs=list(costs(found, data, member)),
        points=[
            (error, distance, found.probabilities.get(error.heads))
            for error, distance in zip(found.errors, found.distances, strict=True)
        ],
        about=about(data),
        command=command,
        facts=[*facts(frame, failed=int((frame["status"] == "diverged").sum()))],
    )
    write_whole(path, lambda file: file.write(page.encode()))


def about(data: DataSet) -> str:
    """The data in a sentence."""
    learnt = (
        f"{len(data.classes)} labels"
        if data.classes
        else f"targets of {data.output_dim} number{'s' * (data.output_dim > 1)}"
    )
    tokens = "tokens" if data.mask is None else "tokens at most"
    return (
        f"{len(data.x):,} sequences of {data.length} {tokens}, {data.token_dim} features each, with {learnt}."
    )


def costs(found: Estimate, data: DataSet, member: Architecture) -> list[dict[str, Any]]:
    """What the choice costs: parameters and attention, at the recommended and the usual numbers of heads."""
    wanted = {heads for heads in (1, found.recommended_heads, *USUAL_HEADS) if heads is not None}
    rows = []
    for heads in sorted(wanted):
        shape = Architecture(
            token_dim=member.token_dim,
            heads=heads,
            head_dim=HEAD_SIZE,
            output_dim=member.output_dim,
            encoder_hidden=member.encoder_hidden,
            readout_hidden=member.readout_hidden,
        )
        rows.append(
            {
                "heads": heads,
                "recommended": heads == found.recommended_heads,
                "parameters": shape.counted_parameters(),
                "one_query": 2 * data.length * shape.width,
                "all_queries": 2 * data.length**2 * shape.width,
            }
        )
    return rows
