"""What is trained in addition to the paper's grid, and what else is measured on its members."""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from headcount.reproduce.claims import Verdict
from headcount.reproduce.real.claims import LEARNT, allowed, noise_of


def follows(
    frame: pd.DataFrame, *, grid: str, narrow: str, width_fixed: str, heads_fixed: str
) -> Iterator[Verdict]:
    """Whether the training error follows the heads at one width, or the width at one number of heads."""
    parts = {name: frame[frame["variant"] == name] for name in (grid, narrow, width_fixed, heads_fixed)}
    by_heads = ((name, "heads", "width") for name in (narrow, width_fixed))
    for variant, axis, kept in (*by_heads, (heads_fixed, "width", "heads")):
        if parts[variant].empty:
            continue
        for split in ("training", "validation"):
            yield _rises(variant, parts[variant], axis, kept, split)
    yield parted(*(parts[name] for name in (grid, width_fixed, heads_fixed)))


def _rises(variant: str, members: pd.DataFrame, axis: str, kept: str, split: str) -> Verdict:
    """It rises from the first to the last at each length, beyond noise, and never falls between."""
    claim = f"{variant}: {split} accuracy rises with the {axis}, at every T"
    evidence, holds = [], []
    for length, at_length in members.groupby("length"):
        errors = at_length.groupby(axis)["train_error" if split == "training" else "validation_error"]
        means, noise = errors.mean().dropna(), noise_of(errors)
        if len(means) < 2:
            continue
        first, last = means.index[0], means.index[-1]
        path = f"T = {length}, {axis} {first} to {last}: {means[first]:.2%} to {means[last]:.2%} wrong"
        if means[first] < LEARNT:
            evidence.append(f"{path}, nothing left to learn")
            continue
        fallen, within = means[first] - means[last], allowed(noise[first], noise[last])
        back = [
            after
            for before, after in pairwise(means.index)
            if means[after] - means[before] > allowed(noise[before], noise[after])
        ]
        steps = f", worse again at {axis} {', '.join(map(str, back))}" if back else ""
        evidence.append(f"{path}{', level within noise' if abs(fallen) <= within else ''}{steps}")
        holds.append(fallen > within and not back)
    where = f"{kept} {members[kept].iloc[0]}"
    return Verdict(claim, all(holds) if holds else None, f"{where}: {', '.join(evidence) or 'not trained'}")


def parted(grid: pd.DataFrame, width_fixed: pd.DataFrame, heads_fixed: pd.DataFrame) -> Verdict:
    """From the smallest cell of the grid to a larger one: by heads alone, by width alone, by both."""
    claim = "added heads raise training accuracy more than the added width does"
    if width_fixed.empty or heads_fixed.empty:
        return Verdict(claim, None, "needs both controls")
    together = pd.concat([grid, width_fixed, heads_fixed])
    wrong = together.groupby(["heads", "width", "length"])["train_error"].mean()
    few, narrow = grid.sort_values("heads")[["heads", "width"]].iloc[0]
    many, wide = heads_fixed["heads"].iloc[0], width_fixed["width"].iloc[0]
    evidence, holds = [], []
    for length in sorted(grid["length"].unique()):
        corners = [(few, narrow, length), (many, narrow, length), (few, wide, length), (many, wide, length)]
        if all(corner in wrong.index for corner in corners):
            least, heads_alone, width_alone, both = (wrong[corner] for corner in corners)
            evidence.append(
                f"T = {length}: {least:.2%} wrong, {heads_alone:.2%} by heads alone, "
                f"{width_alone:.2%} by width alone, {both:.2%} by both"
            )
            if abs(heads_alone - width_alone) >= LEARNT:
                holds.append(heads_alone < width_alone)
    path = f"from h = {few}, E = {narrow} to h = {many}, E = {wide}"
    return Verdict(claim, all(holds) if holds else None, f"{path}: {', '.join(evidence) or 'not trained'}")


def tokens_that_matter(frame: pd.DataFrame) -> Verdict:
    """How many candidates, or patches, change the score of the right answer by much."""
    claim = "the more tokens there are, the more of them matter to the right answer"
    found = _scored(frame, "tokens_that_matter")
    means = found.pivot_table(index="heads", columns="length", values="score")
    if len(means.columns) < 2:
        return Verdict(claim, None, "needs two lengths")
    evidence = ", ".join(
        f"T = {length}: {column.iloc[0]:.0f} with h = {column.index[0]}, {column.iloc[-1]:.0f} with h = "
        f"{column.index[-1]}"
        for length, column in means.items()
    )
    return Verdict(claim, bool((means.mean().diff().iloc[1:] > 0).all()), evidence)


def reciprocal_rank(frame: pd.DataFrame) -> Iterator[Verdict]:
    """The mean reciprocal rank of the positive among validation candidates, where there are candidates."""
    found = _scored(frame, "validation_mrr")
    if found.empty:
        return
    means = found.pivot_table(index="heads", columns="length", values="score")
    evidence = ", ".join(
        f"T = {length}: {column.iloc[0]:.2f} with h = {column.index[0]}, at best {column.max():.2f} with h = "
        f"{column.idxmax()}, {column.iloc[-1]:.2f} with h = {column.index[-1]}"
        for length, column in means.items()
    )
    noise = noise_of(found.groupby(["heads", "length"])["score"]).unstack()
    near = []
    for length in means.columns:
        scores, unsure = means[length], noise[length]
        within = allowed(unsure.iloc[int(scores.argmax())], unsure.iloc[-1])
        near.append(scores.max() - scores.iloc[-1] <= within)
    yield Verdict(
        "the mean reciprocal rank on validation lists is best, within noise, with the most heads",
        all(near),
        evidence,
    )


def _scored(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The members that have this score, as `score`."""
    scores = [json.loads(text).get(name, np.nan) for text in frame["scores"]]
    return frame.assign(score=scores).dropna(subset="score")


def beside_the_grid(frame: pd.DataFrame, *, grid: str, others: Sequence[str]) -> Iterator[Verdict]:
    """Whether cells that were trained in another way too are as accurate as in the grid."""
    for variant in others:
        for (heads, length), members in frame[frame["variant"] == variant].groupby(["heads", "length"]):
            of_grid = (frame["variant"] == grid) & (frame["heads"] == heads) & (frame["length"] == length)
            claim = f"{variant}, h = {heads} and T = {length} are as accurate as in the grid, within a point"
            evidence, moved = [], []
            for split in ("train", "validation"):
                there, here = (rows[f"{split}_error"].dropna() for rows in (frame[of_grid], members))
                if there.empty or here.empty:
                    break
                moved.append(100 * abs(here.mean() - there.mean()))
                shares = [
                    f"{100 * (1 - side.mean()):.1f}% ± {100 * side.std():.1f}" for side in (here, there)
                ]
                evidence.append(f"{split} {shares[0]} against {shares[1]}")
            if len(evidence) < 2:
                yield Verdict(claim, None, "a cell has no finished member")
            else:
                yield Verdict(
                    claim, bool(max(moved) <= 1), f"{', '.join(evidence)}; ± over {len(members)} seeds"
                )
