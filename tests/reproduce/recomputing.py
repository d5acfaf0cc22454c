"""Rows and pages read without the project, to compute again what the pages say."""

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

ROOT = Path(__file__).parent.parent.parent
NUMBER = r"-?[\d,]*\.?\d+(?:e[+-]?\d+)?"


@cache
def rows_of(name):
    return pd.read_parquet(ROOT / "benchmarks" / "results" / f"{name}.parquet")


@cache
def page(name):
    return (ROOT / "docs" / f"{name}.md").read_text("utf-8")


def quote(name, of="paper"):
    """A quoted part of a page as lines."""
    (text,) = re.findall(rf"<!-- quote: {name} -->\n(.*?)<!-- end -->", page(of), re.DOTALL)
    return text.splitlines()


def cells(line):
    return [one.strip(" *") for one in line.strip("|").split("|")]


def row_of(lines, *start):
    """The mark of the one row of a Markdown table that begins with these, and what follows them."""
    rows = [cells(line) for line in lines if line.startswith("|")]
    rows = [("", row) if row[: len(start)] == list(start) else (row[0], row[1:]) for row in rows]
    (found,) = [(mark, row[len(start) :]) for mark, row in rows if row[: len(start)] == list(start)]
    return found


def numbers(text):
    return [float(found.replace(",", "")) for found in re.findall(NUMBER, text)]


def same(said, found, rel=6e-3):
    """Two numbers as precisely as one is written."""
    assert np.allclose(said, found, rtol=rel), (said, found)


def fitted(design, logs):
    """Least squares: the coefficients, and the reach of their 95% by the usual error and with HC3 too."""
    inverse = np.linalg.inv(design.T @ design)
    found = inverse @ design.T @ logs
    rest = logs - design @ found
    freedom = len(logs) - design.shape[1]
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
    pulls = inverse @ design.T * (rest / (1 - leverage))
    equal = np.sqrt(rest @ rest / freedom * np.diag(inverse))
    reach = student.ppf(0.975, freedom)
    return found, reach * equal, reach * np.maximum(equal, np.sqrt((pulls**2).sum(axis=1)))


def through_all(x, groups):
    """The slope of log error on log x over all seeds, and both reaches."""
    along = np.log(np.repeat(x, [len(group) for group in groups]))
    logs = np.log(np.concatenate(groups))
    return tuple(each[0] for each in fitted(np.stack([along, np.ones_like(along)], axis=1), logs))


def not_stuck(groups):
    """The errors below the first factor of 3 or more that is also 12 median log ratios of neighbours wide."""
    groups = [sorted(group) for group in groups]
    ratios = [after / before for group in groups for before, after in pairwise(group)]
    wide = max(3.0, float(np.exp(12 * np.median(np.log(ratios))))) if ratios else np.inf
    kept = []
    for group in groups:
        count = len(group)
        for place in range(len(group) - 1, 1, -1):  # two are always kept
            if group[place] > wide * group[place - 1]:
                count = place
        kept.append(np.array(group[:count]))
    return kept


def through_those_that_learn(x, groups):
    """The slope over seeds that are not stuck, the ends over them and over all, and how many are stuck."""
    kept = not_stuck(groups)
    found = [through_all(x, some) for some in (kept, groups)]
    ends = min(slope - reach for slope, _, reach in found), max(slope + reach for slope, _, reach in found)
    return found[0][0], *ends, sum(map(len, groups)) - sum(map(len, kept))


def says(text, slope, low, high, stuck):
    """Whether an exponent is written so, with its interval and how many seeds are stuck."""
    said = numbers(text)
    count = said.pop() if "stuck" in text else 0
    return count == stuck and np.allclose(said, [slope, low, high], atol=6e-3)
