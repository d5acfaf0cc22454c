"""The page of an estimate."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.data.arrays import DataSet
from headcount.estimate.advice import NOT_TOLD, advice_of
from headcount.estimate.evidence import NEAR, POOLING
from headcount.estimate.verdict import Estimate
from headcount.models.architecture import Architecture
from headcount.report.attention_chart import attention_chart
from headcount.report.deciding_chart import deciding_chart
from headcount.report.rendering import duration, facts, rendered
from headcount.report.salience_chart import convergence_chart, salience_chart
from headcount.theory.plan import counted

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


def page_of(
    found: Estimate,
    early: Estimate,
    data: DataSet,
    member: Architecture,
    pictures: Pictures,
    frame: pd.DataFrame,
    *,
    command: str,
) -> partial[str]:
    """The page, to be rendered when it is called for: by then data and models may be gone."""
    return partial(
        rendered,
        "estimate.html",
        title=f"How many heads does {data.name} need?",
        findings=[found.sentence],
        deciding=found.deciding,
        read=data.summary,
        doubts=data.doubts,
        advice=advice_of(found),
        not_told=NOT_TOLD,
        reasons=found.reasons,
        early=early.sentence,
        curves=deciding_chart(found).to_dict(),
        points=list(points(found)),
        labels=found.labels,
        tokens=tokens_beside_dimension(found),
        counts=salience_chart(pictures.counts, dimension=found.dimension).to_dict(),
        convergence=convergence_chart(pictures.counts).to_dict(),
        attention=[
            attention_chart(weights, name=f"sequence {place + 1}").to_dict()
            for place, weights in enumerate(pictures.weights)
        ],
        collisions=found.evidence.get("collisions"),
        length=found.evidence.get("length"),
        costs=list(costs(found, data, member)),
        head_size=HEAD_SIZE,
        tokens_read=data.length,
        command=command,
        facts=[
            *facts(frame, failed=int((frame["status"] == "diverged").sum())),
            ("time of compiling", duration(found.compile_seconds)),
        ],
    )


def points(found: Estimate) -> list[dict[str, Any]]:
    """A row of the table for every head count that was tried; those not trained in full have no numbers."""
    heads = sorted({point.heads for point in (*found.errors, *found.early_errors)})
    curves = {"error": found.errors, "distance": found.distances, "accuracy": found.accuracies}
    at = {name: {point.heads: point for point in curve} for name, curve in curves.items()}
    return [
        {
            "heads": count,
            "chance": found.probabilities.get(count),
            "dimension": count == found.dimension,
            **{name: of.get(count) for name, of in at.items()},
        }
        for count in heads
    ]


def tokens_beside_dimension(found: Estimate) -> str:
    """Why the number of tokens that matter is not D; empty where it is, or where D is unknown."""
    seen = found.evidence.get("salience")
    if seen is None or found.dimension in (None, seen["tokens"]) or found.interval is None:
        return ""
    tokens, dimension, (low, high) = seen["tokens"], found.dimension or 1, found.interval
    held = "; the interval holds both" if low <= tokens <= high else ""
    if found.labels:
        why = "the probability of a label hardly changes away from a boundary, so D rests on the curves alone"
    elif not seen["fits_well_enough"]:
        why = "the model fits too loosely to count tokens by its gradients, so D rests on the curves alone"
    elif seen["share_of_tokens"] >= POOLING or tokens > dimension + NEAR:
        why = "a head that averages reads many tokens at once, so this number may be far above D"
    elif tokens > dimension:
        why = f"one head may weigh two tokens of a sequence{held}"
    else:
        why = f"two of the things retrieved may lie at one token{held}"
    matter = "matters" if tokens == 1 else "matter"
    return f"Up to {counted(tokens, 'token')} {matter} in four of five sequences, and D = {dimension}: {why}."


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
