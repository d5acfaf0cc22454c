"""The best members of an item carried on by a second-order method, where first-order training stalled."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from headcount.engine.train import polished
from headcount.reproduce.claims import CELL, finished, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe
from headcount.results.store import Store
from headcount.trials.machine import this_machine
from headcount.trials.pack import Pack
from headcount.trials.row import Outcome, Row
from headcount.trials.trial import Trial


def to_polish(item: Item, recipe: Recipe, frame: pd.DataFrame) -> list[tuple[Trial, Trial]]:
    """The trained and the polished trial of every cell whose best validation error is above the paper's."""
    if item.polished is None or item.paper is None or not recipe.polish_steps:
        return []
    trials = {trial.id: trial for trial in item.trials(recipe)}
    rows = finished(frame[frame["trial"].isin(list(trials))])
    table = summarise(rows, paper=item.paper).set_index(list(CELL))
    stalled = table[table["validation_ratio"] > 1].index
    best = rows.sort_values(["validation_error", "trial"]).drop_duplicates(list(CELL))
    cells = zip(best["trial"], best["heads"], best["length"], strict=True)
    chosen = [
        trials[trial] for trial, heads, length in cells if (heads, length) in stalled and item.polished(heads)
    ]
    return [
        (trial, replace(trial, training=replace(trial.training, polish_steps=recipe.polish_steps)))
        for trial in chosen
    ]


def polish_into(store: Store, pairs: list[tuple[Trial, Trial]]) -> Iterator[Row]:
    """Polish what the store does not hold yet, one at a time; every row is on disk before it is yielded."""
    rows = {row["trial"]: row for row in store.frame().to_dict(orient="records")}
    for trained, wanted in pairs:
        if wanted.id in rows:
            continue
        row, model = rows[trained.id], store.model(trained)
        if model is None:
            continue  # its weights were not kept: the row of the trained member stands as it is
        outcome = Outcome(
            model=model,
            train_error=row["train_error"],
            validation_error=row["validation_error"],
            test_error=row["test_error"],
            best_step=row["best_step"],
            diverged=False,
        )
        began = time.perf_counter()
        better = polished(wanted, outcome)
        seconds = row["seconds"] + time.perf_counter() - began
        made = Row.of(wanted, better, this_machine(), seconds=seconds)
        store.write(Pack((wanted,), wanted.architecture), [made])
        yield made
