"""What is trained in addition to the paper's grid, and what else is measured on its members."""

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from headcount.reproduce.claims import Verdict
from headcount.reproduce.real.claims import LEARNT, beyond, worse_again
from headcount.results.intervals import difference, paired, regression, significant


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
    """It rises from the first to the last at each length, significantly, and never falls between."""
    claim = f"{variant}: {split} accuracy rises with the {axis}, at every T"
    evidence, holds = [], []
    column = "train_error" if split == "training" else "validation_error"
    for length, at_length in members.groupby("length"):
        cells = {
            int(place): cell.dropna().to_numpy()
            for place in sorted(at_length[axis].unique())
            if (cell := at_length[column][at_length[axis] == place]).notna().any()
        }
        if len(cells) < 2:
            continue
        places, errors = list(cells), list(cells.values())
        path = (
            f"T = {length}, {axis} {places[0]} to {places[-1]}: {errors[0].mean():.2%} to "
            f"{errors[-1].mean():.2%} wrong"
        )
        if errors[0].mean() < LEARNT:
            evidence.append(f"{path}, nothing left to learn")
            continue
        gained = beyond(difference(errors[0], errors[-1]))
        back = [place for place, worse in zip(places[1:], worse_again(errors), strict=True) if worse]
        steps = f", worse again at {axis} {', '.join(map(str, back))}" if back else ""
        evidence.append(f"{path}{', no significant difference' if not gained else ''}{steps}")
        holds.append(False if gained < 0 or back else True if gained else None)
    verdict = False if False in holds else True if holds and None not in holds else None
    where = f"{kept} {members[kept].iloc[0]}"
    return Verdict(claim, verdict, f"{where}: {', '.join(evidence) or 'not trained'}")


def parted(grid: pd.DataFrame, width_fixed: pd.DataFrame, heads_fixed: pd.DataFrame) -> Verdict:
    """From the smallest cell of the grid to a larger one: by heads alone, by width alone, by both."""
    claim = "added heads raise training accuracy more than the added width does"
    if width_fixed.empty or heads_fixed.empty:
        return Verdict(claim, None, "needs both controls")
    parts = (grid, width_fixed, heads_fixed)
    cells = [cell for part in parts for cell in part.groupby(["heads", "width", "length"])]
    # A cell of several parts is the same members.
    wrong = {corner: cell["train_error"].dropna().to_numpy() for corner, cell in reversed(cells)}
    few, narrow = grid.sort_values("heads")[["heads", "width"]].iloc[0]
    many, wide = heads_fixed["heads"].iloc[0], width_fixed["width"].iloc[0]
    evidence, holds = [], []
    for length in sorted(grid["length"].unique()):
        corners = [(few, narrow, length), (many, narrow, length), (few, wide, length), (many, wide, length)]
        if all(len(wrong.get(corner, ())) for corner in corners):
            least, heads_alone, width_alone, both = (wrong[corner] for corner in corners)
            found = difference(heads_alone, width_alone)
            low, high = (100 * end for end in found.interval)
            evidence.append(
                f"T = {length}: {least.mean():.2%} wrong, {heads_alone.mean():.2%} by heads alone, "
                f"{width_alone.mean():.2%} by width alone, {both.mean():.2%} by both; width is ahead by "
                f"{100 * found.value:.1f} points ({low:.1f} to {high:.1f})"
            )
            if abs(found.value) >= LEARNT:
                holds.append(found.value < 0 if found.sign else None)
    path = f"from h = {few}, E = {narrow} to h = {many}, E = {wide}"
    verdict = None if None in holds or not holds else all(holds)
    return Verdict(claim, verdict, f"{path}: {', '.join(evidence) or 'not trained'}")


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
    each_heads = pd.get_dummies(found["heads"]).to_numpy(float)
    along = np.log(found["length"].to_numpy(float))[:, None]
    slope = regression(np.hstack([along, each_heads]), found["score"].to_numpy(float))[0]
    evidence += f"; tokens for each e-fold of T {slope}"
    return Verdict(claim, slope.sign > 0 if slope.sign else None, evidence)


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
    near = []
    for _, cells in found.groupby("length"):
        scores = [cell["score"].to_numpy() for _, cell in cells.groupby("heads")]
        gains = [difference(one, scores[-1]) for one in scores[:-1]]
        better = significant([gain.p for gain in gains])
        near.append(not any(real and gain.value > 0 for real, gain in zip(better, gains, strict=True)))
    yield Verdict(
        "on validation lists no head count has a significantly better mean reciprocal rank than the largest",
        all(near),
        evidence,
    )


def _scored(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The members that have this score, as `score`."""
    scores = [json.loads(text).get(name, np.nan) for text in frame["scores"]]
    return frame.assign(score=scores).dropna(subset="score")


def beside_the_grid(frame: pd.DataFrame, *, grid: str, others: Sequence[str]) -> Iterator[Verdict]:
    """Whether cells that were trained in another way too are as accurate as in the grid, seed by seed."""
    for variant in others:
        for (heads, length), members in frame[frame["variant"] == variant].groupby(["heads", "length"]):
            of_grid = (frame["variant"] == grid) & (frame["heads"] == heads) & (frame["length"] == length)
            claim = f"{variant}, h = {heads} and T = {length} are as accurate as in the grid, within a point"
            both = frame[of_grid].merge(members, on="seed", suffixes=("_there", "_here"))
            if len(both) < 2:
                yield Verdict(claim, None, "needs two seeds that finished in both")
                continue
            evidence, holds = [], []
            for split in ("train", "validation"):
                there, here = (
                    100 * (1 - both[f"{split}_error_{side}"].to_numpy()) for side in ("there", "here")
                )
                low, high = paired(here, there).interval
                evidence.append(
                    f"{split} {here.mean():.1f}% against {there.mean():.1f}% ({low:+.1f} to {high:+.1f})"
                )
                holds.append(True if low >= -1 and high <= 1 else False if high < -1 or low > 1 else None)
            verdict = False if False in holds else None if None in holds else True
            yield Verdict(claim, verdict, f"{', '.join(evidence)}; {len(both)} seeds")
