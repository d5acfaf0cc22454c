"""MS MARCO: re-rankers over frozen embeddings, with ever more candidates to choose among.

The paper gives two layers and 32 numbers per head, not the optimizer, the epochs or how a sequence is formed
(reproduce/real/pooled.py says what is done here). Its embeddings are those of BERT-base, 768 wide; any
frozen tables will do here, and those at hand were 384 wide.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headcount.data.msmarco.embeddings import TABLES, frozen_embeddings
from headcount.data.msmarco.loading import load as load_rankings
from headcount.data.msmarco.negatives import Negatives
from headcount.data.msmarco.source import SITE, Options
from headcount.models.encoder import EncoderShape
from headcount.models.reranker import JoinedShape, RerankerShape
from headcount.reproduce.real.item import real_item
from headcount.reproduce.real.paper import MSMARCO_TRAIN, MSMARCO_VALIDATION
from headcount.reproduce.real.ranking import EmbeddedRankings
from headcount.reproduce.real.trial import RealData, RealTrial
from headcount.reproduce.real.variants import (
    FAST,
    FEEDFORWARD,
    GRID,
    JOINED,
    LONGER,
    SHORTER,
    SHORTER_CORNERS,
    Trials,
    replicated,
    with_controls,
)
from headcount.reproduce.recipe import Recipe
from headcount.trials.training import Training

LAYERS, HEAD_DIM, DROPOUT = 2, 32, 0.0
HEADS, LENGTHS = (1, 2, 4, 6, 8, 12, 16), (8, 16, 32, 64)
EPOCHS, BATCH, RATE = 60, 128, 1e-3
FEW_EPOCHS, FEW_HEADS = 6, (1, 2, 4, 8)  # the grid again, ended long before it has learnt all
MORE_EPOCHS, STILL_WRONG = 120, (1,)  # and where it has not learnt all: would it with more time?
WIDTH, FIXED = 192, 8  # of the controls: the width at which heads vary, the heads at which the width does
PRECISE, WHOLE = (1, 32), (4, 8)  # heads and T of the cells also trained in float32; with all tokens kept
QUICK_HEADS, QUICK_LENGTHS, QUICK_QUERIES, QUICK_EPOCHS = (1, 2, 4), (8, 16), 800, 20


def load(
    folder: Path | str,
    *,
    quick: bool = False,
    tables: Path | str | None = None,
    negatives: Negatives = "bm25",
) -> RealData:
    """The rankings and the frozen embeddings of a folder, every query and passage as one vector."""
    length = max(QUICK_LENGTHS if quick else LENGTHS)
    rankings = load_rankings(folder, Options(length=length, tables=tables, negatives=negatives))
    embeddings = frozen_embeddings(tables or folder)
    data = EmbeddedRankings.of(rankings, embeddings)
    # The vectors in `data` are computed, and rounded differently on other machines.
    return RealData.read("msmarco", data, *rankings.content, *(getattr(embeddings, name) for name in TABLES))


def make(recipe: Recipe, data: RealData) -> Trials:
    """The grid; and, at the shorter lengths, heads at one width and widths at one number of heads."""
    heads, lengths = (QUICK_HEADS, QUICK_LENGTHS) if recipe.quick else (HEADS, LENGTHS)
    given: EmbeddedRankings = data.data
    training, embedding = _training(recipe, given), given.queries.shape[1]

    def trials(encoder: EncoderShape, length: int) -> Iterator[RealTrial]:
        shape = RerankerShape(replace(encoder, layers=LAYERS, dropout=DROPOUT), embedding)
        return replicated(recipe, data, shape, length, RATE, training)

    found = with_controls(
        recipe,
        heads,
        lengths,
        trials,
        head_dim=HEAD_DIM,
        width=WIDTH,
        fixed=FIXED,
        narrow_lengths=len(lengths),
        precise=PRECISE,
    )
    if recipe.quick:
        return found
    count, length = WHOLE
    encoder = EncoderShape(count, HEAD_DIM, LAYERS, FEEDFORWARD * count * HEAD_DIM, precision=FAST)
    joined = replicated(recipe, data, JoinedShape(encoder, embedding), length, RATE, training)

    def again(trials: Iterable[RealTrial], epochs: int) -> tuple[RealTrial, ...]:
        training = _training(recipe, given, epochs=epochs)
        return tuple(replace(trial, training=training) for trial in trials)

    def of_grid(heads: Sequence[int]) -> Iterator[RealTrial]:
        return (trial for trial in found[GRID] if trial.architecture.heads in heads)

    few, many = min(FEW_HEADS), max(FEW_HEADS)
    corners = (
        trial
        for length in lengths
        for count, width in ((many, few * HEAD_DIM), (few, many * HEAD_DIM))
        for trial in trials(
            EncoderShape(count, width // count, LAYERS, FEEDFORWARD * width, precision=FAST), length
        )
    )
    return {
        **found,
        JOINED: tuple(joined),
        SHORTER: again(of_grid(FEW_HEADS), FEW_EPOCHS),
        SHORTER_CORNERS: again(corners, FEW_EPOCHS),
        LONGER: again(of_grid(STILL_WRONG), MORE_EPOCHS),
    }


def _training(recipe: Recipe, given: EmbeddedRankings, *, epochs: int = EPOCHS) -> Training:
    queries, checked = len(given.rankings.train), len(given.rankings.validation)
    if recipe.quick:
        queries, checked = min(queries, QUICK_QUERIES), min(checked, QUICK_QUERIES)
    an_epoch = -(-queries // BATCH)
    return Training(
        steps=(QUICK_EPOCHS if recipe.quick else epochs) * an_epoch,
        batch_size=BATCH,
        weight_decay=0.01,
        train_samples=queries,
        validation_samples=checked,
        evaluate_every=an_epoch,
        loss="cross_entropy",
    )


ITEM = real_item(
    "msmarco",
    "MS MARCO: heads against the number of candidates",
    "A re-ranker of two layers and 32 numbers per head over frozen embeddings; T candidates for each query.",
    train=MSMARCO_TRAIN,
    validation=MSMARCO_VALIDATION,
    load=load,
    make=make,
    where=f"the passage ranking files of MS MARCO ({SITE}) and bert_embeddings.npz",
    seeds=3,
    options=("tables", "negatives"),
)
