"""Members on real data go through the same run, store and frame as all others."""

import gc
import json
import weakref
from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from reproduce.real.small import image_trial, images, ranking_trial, rankings

from headcount.engine.train import plan_all
from headcount.errors import InvalidInput
from headcount.reproduce.real.images import its_own_keys
from headcount.reproduce.real.training import SKETCH, SKETCHED, looks, sketch
from headcount.reproduce.real.trial import problem_of, samples_of, train_real
from headcount.results.store import Store, read_results
from headcount.running.executor import run
from headcount.trials.machine import Machine, this_machine

pytestmark = pytest.mark.usefixtures("compiled_quickly")

QUICKLY = {"xla_backend_optimization_level": 0}  # a test compiles longer than it computes
KINDS = {"images": image_trial, "passages": ranking_trial, "words": partial(ranking_trial, joined=True)}


def trained(trials, folder, **options):
    for _ in run(trials, Store(folder), **options):
        pass
    return read_results(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_members_learn_and_their_rows_say_how_well(kind, tmp_path):
    trials = [KINDS[kind](seed) for seed in (0, 1)]
    frame = trained(trials, tmp_path)
    assert list(frame["trial"]) == [trial.id for trial in sorted(trials, key=lambda trial: trial.seed)]
    assert (frame["metric"] == "share wrong").all() and (frame["status"] == "done").all()
    assert (frame["train_error"] < 0.5).all()
    scores = json.loads(frame["scores"][0])
    assert scores["train_accuracy"] == pytest.approx(1 - frame["train_error"][0])
    assert 1 <= scores["tokens_that_matter"] <= trials[0].length
    if kind != "images":
        assert scores["train_accuracy"] <= scores["train_mrr"] <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_members_side_by_side_train_as_they_do_alone(kind):
    """What a GPU runs, one vmapped program, and what a core runs, one member after the other; in float64."""
    trials = [KINDS[kind](seed) for seed in (0, 1)]
    trials = [replace(trial, training=replace(trial.training, evaluate_every=4)) for trial in trials]
    (pack,) = plan_all(trials, this_machine())
    training = train_real(pack, this_machine())
    program, (state, courses), (samples, _) = training._advancing(1)
    with jax.enable_x64(True):
        state = replace(state, model=doubled(state.model), optimizer=doubled(state.optimizer))
        vmapped = jax.vmap(program, (0, 0, None, None))
        side_by_side, by_itself = (jax.jit(one, compiler_options=QUICKLY) for one in (vmapped, program))
        together = side_by_side(state, courses, samples, 1)
        for place in (0, 1):
            mine = [jax.tree.map(lambda leaf, place=place: leaf[place], tree) for tree in (state, courses)]
            alone = by_itself(*mine, samples, 1)
            for one, other in zip(*map(jax.tree.leaves, (together.model, alone.model)), strict=True):
                assert other.dtype == np.float64
                np.testing.assert_allclose(one[place], other, rtol=0, atol=1e-8)


def doubled(tree):
    return jax.tree.map(lambda leaf: leaf.astype(np.float64) if leaf.dtype == np.float32 else leaf, tree)


def test_killed_half_way_it_goes_on_to_the_same_end(tmp_path):
    trials = [image_trial(seed) for seed in (0, 1)]
    whole = trained(trials, tmp_path / "whole")
    store = Store(tmp_path / "parts")
    store.prepare()
    (pack,) = plan_all(trials, this_machine())
    training = train_real(pack, this_machine())
    training.chunk()
    assert 0 < training.step < 40
    store.save(pack, training.state, seconds=1.0)
    again = trained(trials, tmp_path / "parts")
    np.testing.assert_allclose(again["train_error"], whole["train_error"], atol=0.02)


def test_looks_early_in_a_training_see_what_a_training_that_stops_there_would(tmp_path):
    trial = ranking_trial()
    trial = replace(trial, training=replace(trial.training, evaluate_every=3))
    assert looks(trial.training) == {0.05: 3, 0.1: 6}
    store = Store(tmp_path / "parts")
    store.prepare()
    (pack,) = plan_all([trial], this_machine())
    training = train_real(pack, this_machine())
    training.chunk()
    assert training.step == 3
    store.save(pack, training.state, seconds=1.0)  # killed between two looks
    (scores,) = map(json.loads, trained([trial], tmp_path / "parts")["scores"])
    assert all(np.isfinite(score) for score in scores.values())
    problem, samples = problem_of(trial), training.on_host
    for share, step in looks(trial.training).items():
        alone = train_real(pack, this_machine())
        while alone.step < step:
            alone.chunk()
        model = jax.tree.map(lambda leaf: leaf[0], alone.state.model)
        answers = problem.answers(model, samples)
        early = {
            name[len(f"early_{100 * share:g}_") :]: score
            for name, score in scores.items()
            if name.startswith(f"early_{100 * share:g}_")
        }
        measures = problem.measures(answers, samples)
        assert early["validation_error"] == pytest.approx(1 - measures["validation_accuracy"], abs=1e-3)
        found = [early[f"sketch_{place}"] for place in range(SKETCH)]
        np.testing.assert_allclose(found, sketch(answers), atol=2e-3)


def test_a_sketch_keeps_distances_between_answers():
    random = np.random.default_rng(0)
    logs = [np.log(random.dirichlet(np.ones(5), size=SKETCHED)) for _ in range(40)]
    apart = [
        (
            np.linalg.norm(sketch({"train": one}) - sketch({"train": other}))
            / np.sqrt(np.mean((one - other) ** 2))
        )
        for one, other in zip(logs[::2], logs[1::2], strict=True)
    ]
    assert abs(np.mean(np.square(apart)) - 1) < 0.25
    shifted = {"train": logs[0] + random.normal(size=(SKETCHED, 1))}
    np.testing.assert_allclose(sketch(shifted), sketch({"train": logs[0]}), atol=1e-9)


def test_weights_are_kept_where_a_run_is_asked_to(tmp_path):
    trial = ranking_trial()
    trained([trial], tmp_path, keep_models=True)
    model = Store(tmp_path).model(trial)
    problem, samples = problem_of(trial), jax.device_put(samples_of(trial))
    answers = problem.answers(model, samples)
    scores = problem.measures(answers, samples)
    assert Store(tmp_path).test_outputs(trial) is None, "there is no test split"
    kept = Store(tmp_path).train_outputs(trial)
    np.testing.assert_allclose(answers["train"][: len(kept)], kept, atol=1e-4)
    right = (kept.argmax(axis=1) == np.asarray(samples.train.label)).mean()
    assert right == pytest.approx(float(scores["train_accuracy"]))
    frame = read_results(tmp_path)
    assert float(scores["train_accuracy"]) == pytest.approx(1 - frame["train_error"][0])


def test_trials_are_known_by_everything_that_decides_the_result():
    base = image_trial()
    once = replace(base, task=base.task.placing_once())
    changes = {"seed": 1, "heads": 4, "side": 48, "steps": 50, "dropout": 0.1, "precision": "bfloat16"}
    changes["data"] = images(seed=1)
    others = [image_trial(**{name: value}) for name, value in changes.items()]
    assert image_trial().id == base.id
    assert len({trial.id for trial in (base, once, *others)}) == 2 + len(others)
    assert problem_of(once).placed_once and not problem_of(base).placed_once
    data = rankings()
    passages = [
        ranking_trial(data=data),
        ranking_trial(data=rankings(seed=1)),
        ranking_trial(data=data, joined=True),
    ]
    assert len({trial.id for trial in passages}) == 3


def test_packs_hold_members_of_one_shape_and_fit_the_memory():
    trials = [image_trial(seed, heads=heads) for heads in (1, 2) for seed in (0, 1, 2)]
    packs = plan_all(trials, Machine("gpu", "a GPU", memory=1 << 30, lanes=1))
    assert [len(pack.trials) for pack in packs] == [3, 3]
    with pytest.raises(InvalidInput, match="expected a member of at most"):
        plan_all(trials, Machine("gpu", "a small one", memory=1 << 10, lanes=1))


def test_what_programs_are_compiled_for_holds_no_data():
    data = images()
    trial, other = image_trial(data=data), image_trial(data=images(seed=1))
    assert problem_of(trial) == problem_of(other) and hash(problem_of(trial)) == hash(problem_of(other))
    samples, problem, watched = samples_of(trial), problem_of(trial), weakref.ref(data)
    with pytest.raises(InvalidInput, match="data: expected a data set"):
        samples_of(replace(trial, task=trial.task.with_data(None)))
    del data, trial
    gc.collect()
    assert watched() is None and problem is not None and len(samples.train.y)


@pytest.mark.parametrize("placed_once", [True, False])
def test_an_image_keeps_its_place_only_where_that_is_asked_for(placed_once):
    """Of one image alone, the loss moves from visit to visit with its place and with nothing else."""
    trial = image_trial(side=64, data=images(10))
    problem = replace(problem_of(trial), train_images=1, placed_once=placed_once)
    model, samples = problem.start(0), problem.samples(trial.task.data)
    losses = {float(problem.loss(model, samples, jax.random.PRNGKey(step), 1)[0]) for step in range(6)}
    scores = problem.answers(model, samples)["train"]
    where_judged = float(-jax.nn.log_softmax(scores)[0, samples.train.y[0]])
    assert (np.ptp(list(losses)) < 1e-6) == placed_once
    assert (min(losses) == pytest.approx(where_judged, abs=1e-5)) == placed_once


@pytest.mark.parametrize("kind", KINDS)
def test_salience_is_how_the_right_answers_score_moves(kind):
    """Beside differences of scores, for one token of one sample; in float64."""
    trial = KINDS[kind]()
    problem = problem_of(trial)
    with jax.enable_x64(True):
        model = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf, jax.numpy.float64), problem.start(0))
        samples = jax.device_put(samples_of(trial))
        moved = np.asarray(jax.jit(problem.salience)(model, samples))
        if kind == "images":
            tokens = problem._seen(samples.train.x[3:4], its_own_keys(np.array([3])))
            scores, label = model, samples.train.y[3]
        else:
            tokens, rest = problem.read(samples.texts, samples.train[np.array([3])])
            scores, label = lambda tokens: problem.scores(model, tokens, rest), samples.train.label[3]
        tokens = tokens.astype(np.float64)
        each = tokens.shape[1] // moved.shape[1]  # tokens of a candidate; a patch is one
        second = slice(each, 2 * each)
        steps = 1e-5 * np.eye(tokens[0, second].size).reshape(-1, *tokens[0, second].shape)

        def after(step):
            return scores(tokens.at[0, second].add(step))[0, label]

        apart = jax.jit(jax.vmap(lambda step: after(step) - after(-step)))(steps)
    assert moved[3, 1] == pytest.approx(np.linalg.norm(apart) / 2e-5, rel=1e-4)
