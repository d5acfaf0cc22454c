"""The engine against a plain loop, and a member against itself in other company."""

import gc
import math
import weakref
from dataclasses import replace
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiny import tiny_grid

from headcount.data.arrays import data_set
from headcount.engine.data import Split, data_of
from headcount.engine.member import sample_costs
from headcount.engine.train import PackTraining, train
from headcount.errors import InvalidInput
from headcount.estimate.members import MemberRecipe
from headcount.models.bounded import largest_entry
from headcount.models.padding import unpad
from headcount.models.saving import named_leaves
from headcount.models.transformer import Transformer, into_unit_ball
from headcount.trials.machine import Machine
from headcount.trials.pack import Pack, plan
from headcount.trials.training import Training

CPU = Machine("cpu", "a cpu", lanes=2, memory=4 << 30)
GPU = Machine("gpu", "the vmapped program, on whatever device there is", lanes=1, memory=4 << 30)

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@jax.jit
def put_out(model, x):
    return jax.vmap(model)(x)


def finished(pack, machine, **options):
    training = PackTraining(pack, machine, **options)
    while not training.finished:
        training.chunk()
    return training


def in_double(tree):
    """All floats of a tree as float64."""
    leaves = jax.tree.map(np.asarray, tree)
    return jax.tree.map(lambda leaf: leaf.astype(np.float64) if leaf.dtype.kind == "f" else leaf, leaves)


def plain_training(trial, data):
    """One member by the book: Python loop, optax.adamw with its own schedule, no slices, no padding."""
    recipe = trial.training
    schedule = optax.warmup_cosine_decay_schedule(0.0, trial.learning_rate, recipe.warmup, recipe.steps)
    optimizer = optax.chain(
        optax.clip_by_global_norm(recipe.clip), optax.adamw(schedule, weight_decay=recipe.weight_decay)
    )
    model = in_double(Transformer.initialise(trial.architecture, seed=trial.seed))
    state = optimizer.init(model)

    def loss(model, x, y, mask):
        predicted = jax.vmap(lambda x, mask: model(x, mask=mask))(x, mask)
        if recipe.loss == "squared":
            return jnp.mean((predicted - y) ** 2)
        return optax.softmax_cross_entropy(predicted, y).mean()

    @jax.jit
    def update(model, state, x, y, mask):
        moves, state = optimizer.update(jax.grad(loss)(model, x, y, mask), state, model)
        return optax.apply_updates(model, moves), state

    for step in range(recipe.steps):
        key = jax.random.fold_in(jax.random.PRNGKey(trial.seed), step)
        chosen = jax.random.randint(key, (recipe.batch_size,), 0, recipe.train_samples, dtype=jnp.int32)
        mask = None if data.train.mask is None else data.train.mask[0, chosen]
        model, state = update(model, state, data.train.x[0, chosen], data.train.y[0, chosen], mask)
        if trial.architecture.bounded:
            model = within_the_assumption(model, data.mean[0], data.deviation[0])
    return model


def within_the_assumption(model, mean, deviation):
    """Entry by entry: those of F are of the F that gives y as it is, deviation · F + mean."""
    scaled = {
        "attention.query": (1.0, 0.0),
        "attention.key": (1.0, 0.0),
        "attention.value": (1.0, 0.0),
        "attention.output": (1.0, 0.0),
        "readout.weights.0": (1.0, 0.0),
        "readout.biases.0": (1.0, 0.0),
        "readout.weights.1": (deviation[:, None], 0.0),
        "readout.biases.1": (deviation, mean),
    }
    leaves = named_leaves(model)
    for name, (factor, shift) in scaled.items():
        leaves[name] = (np.clip(leaves[name] * factor + shift, -1, 1) - shift) / factor
    return jax.tree.unflatten(jax.tree.structure(model), leaves.values())


def own_data(*, labels, masked):
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 5, 2))
    mask = random.random((400, 5)) < 0.6
    mask[:, 2] = True
    y = np.where(mask[..., None], x, -np.inf).max(axis=1)
    return data_set(x, y[:, 0] > y[:, 1] if labels else y, mask if masked else None)


def trials_on(data, **changes):
    """Two members of different sizes that learn a user's data."""
    sizes = {"steps": 100, "batch_size": 32, "width": 16, "hidden": 8}
    recipe = MemberRecipe(**sizes, starts=((2.0**-7, 0),), label_decay=0.1)
    return replace(recipe, **changes).trials(data, (1, 4))


# Rates and 1/sqrt(n) that float32 holds exactly: they are float32 in the engine.
EXACT = {"heads": (1, 3), "head_dim": (4,), "learning_rate": (2.0**-7,)}
DEEP = {"layers": (2,), "model": (("residual", True), ("layer_norm", True))}
# Steps so large that entries reach their limits.
BOUNDED = {"model": (("bounded", True), ("readout_activation", "tanh")), "learning_rate": (2.0**-3,)}
LEARNT = {
    "decay and clipping": lambda: tiny_grid(**EXACT, weight_decay=0.1, clip=0.01).trials(),
    "two layers": lambda: tiny_grid(**EXACT, **DEEP).trials(),
    "bounded": lambda: tiny_grid(**{**EXACT, **BOUNDED}, weight_decay=0.1).trials(),
    "a user's numbers": lambda: trials_on(own_data(labels=False, masked=False)),
    "a user's labels, masked": lambda: trials_on(own_data(labels=True, masked=True)),
}


@pytest.mark.parametrize("trials", LEARNT.values(), ids=LEARNT)
def test_the_engine_agrees_with_a_plain_loop_in_double_precision(trials):
    """Padded to the most heads, vmapped, in slices, the gradient of the pooling by hand."""
    trials = trials()
    (pack,) = plan(trials, GPU)
    training = PackTraining(pack, GPU)
    with jax.enable_x64(True):
        training.state, training.data = in_double(training.state), in_double(training.data)
        training.conditions = in_double(training.conditions)
        data = in_double(data_of(trials)[0])
        while not training.finished:
            training.chunk()
        for place, trial in enumerate(trials):
            padded = jax.tree.map(lambda leaf, place=place: np.asarray(leaf)[place], training.state.model)
            ours = unpad(padded, trial.architecture)
            reference = plain_training(trial, data)
            x = data.test.x[0]
            np.testing.assert_allclose(put_out(ours, x), put_out(reference, x), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_bounded_model_satisfies_its_assumption_and_another_does_not(activation):
    """Of the model that comes back, which gives y as it is, and that has the error that is reported."""
    bounded, free = (
        tiny_grid(**{**BOUNDED, "model": {"bounded": choice, "readout_activation": activation}}).trials()[0]
        for choice in (True, False)
    )
    outcome, other = (train([trial])[0] for trial in (bounded, free))
    assert largest_entry(outcome.model) == 1 < largest_entry(other.model)
    data, _ = data_of([bounded])
    tokens = jax.vmap(lambda x: into_unit_ball(outcome.model.encoder(x.T)))(data.test.x[0])
    assert 0.99 < jnp.max(jnp.linalg.norm(tokens, axis=1)) <= 1 + 1e-6
    y = data.test.y[0] * data.deviation + data.mean
    wrong = np.mean((put_out(outcome.model, data.test.x[0]) - y) ** 2) / data.deviation[0, 0] ** 2
    assert wrong / np.var(data.test.y) == pytest.approx(outcome.test_error, rel=1e-4)


def test_a_member_that_sees_no_positions_stays_blind_in_arrays_with_room_for_them():
    data = own_data(labels=False, masked=False)
    blind, seeing = (trials_on(data, steps=200, positions=positions)[1] for positions in ("none", "both"))
    (alone,), (with_room, other) = plan([blind], CPU), plan([blind, seeing], GPU)
    assert alone.architecture.positions == "none"
    assert with_room.architecture == other.architecture and other.architecture.positions == "both"
    own, blind_too, sees = finished(alone, CPU), finished(with_room, GPU), finished(other, GPU)
    assert blind_too.outcomes()[0].test_error == pytest.approx(own.outcomes()[0].test_error, rel=1e-3)
    first = with_room.architecture.token_dim
    weights = [np.asarray(each.state.model.encoder.weights[0])[:, :, first:] for each in (blind_too, sees)]
    assert not weights[0].any() and weights[1].any()


def test_the_stages_of_an_estimate_share_one_program_on_a_gpu():
    """Other data of about the same size finds it too."""
    one, other = own_data(labels=False, masked=False), own_data(labels=False, masked=True)
    packs = [
        pack
        for data, steps, kind in (
            (one, 200, "none"),
            (one, 200, "both"),
            (one, 400, "none"),
            (other, 400, "both"),
        )
        for pack in plan(trials_on(data, steps=steps, positions=kind), GPU)
    ]
    assert len(packs) == 4 and len({(pack.architecture, len(pack.trials)) for pack in packs}) == 1


def test_labels_are_judged_against_how_often_each_occurs():
    data = own_data(labels=True, masked=True)
    for pack in plan(trials_on(data, steps=400), CPU):
        assert all(0 < outcome.test_error < 0.9 for outcome in finished(pack, CPU).outcomes())
    y = data.targets[None]
    shares = np.log(y.mean(axis=1, keepdims=True)).repeat(400, axis=1)
    for scores, cost in ((shares, 1), (np.where(y > 0, 0.0, -1e9), 0)):
        costs = sample_costs(scores, Split(None, y), np.array([0]), "cross_entropy")
        np.testing.assert_allclose(costs.mean(axis=1), cost, rtol=1e-9, atol=1e-9)


def test_splits_hold_every_sample_of_a_user_once():
    data = own_data(labels=False, masked=True)
    made, _ = data_of(trials_on(data)[:1])
    splits = (made.train, made.validation, made.test)
    together = np.concatenate([split.y[0] * made.deviation[0] + made.mean[0] for split in splits])
    order = np.lexsort(together.T)
    np.testing.assert_allclose(together[order], data.y[np.lexsort(data.y.T)], atol=1e-5)
    trial = trials_on(data)[0]
    with pytest.raises(InvalidInput, match="400"):
        data_of([replace(trial, training=Training(train_samples=500))])
    with pytest.raises(InvalidInput, match="data: expected a data set"):
        data_of([replace(trial, task=trial.task.with_data(None))])


def test_data_lives_as_long_as_its_study():
    """Neither the splits nor the programs keep a data set: it is gone with the last trial that learns it."""
    data = own_data(labels=False, masked=True)
    trials = trials_on(data)
    (made, _), (again, _) = data_of(trials), data_of(trials)
    assert (made.train.x == again.train.x).all()
    packs = plan(trials, CPU)
    finished(packs[0], CPU).outcomes()
    watched = weakref.ref(data)
    del data, trials, packs
    gc.collect()
    assert watched() is None


def test_a_member_alone_in_a_pack_and_padded_is_the_same_member():
    """The promise of the design: equal to float tolerance over the first few hundred steps."""
    (trial,) = tiny_grid(steps=200, heads=(2,)).trials()
    others = tiny_grid(steps=200, heads=(1, 4), seed=(0, 1)).trials()
    alone = Pack((trial,), trial.architecture)
    company = Pack((others[0], trial, *others[1:]), replace(trial.architecture, heads=4))
    ways = ((alone, 0, CPU), (company, 1, CPU), (company, 1, GPU))
    errors = [finished(pack, machine).outcomes()[place].test_error for pack, place, machine in ways]
    np.testing.assert_allclose(errors, errors[0], rtol=1e-3)


def test_chunks_of_any_size_give_the_same_numbers():
    (pack,) = plan(tiny_grid(seed=(0, 1)).trials(), CPU)
    one_by_one, at_once = PackTraining(pack, CPU), PackTraining(pack, CPU)
    for training, periods in ((at_once, 4), (one_by_one, 1)):
        for _ in range(4 // periods):
            training._periods = periods
            training.chunk()
        assert training.finished
    for ours, theirs in zip(jax.tree.leaves(one_by_one.state), jax.tree.leaves(at_once.state), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_only_a_long_run_pays_for_tuned_kernels(monkeypatch):
    pack = plan(tiny_grid(heads=(1, 2)).trials(), GPU)[0]
    quick = finished(pack, GPU)
    monkeypatch.setattr(import_module("headcount.engine.train"), "TOKENS_WORTH_TUNING", 1)
    tuned = finished(pack, GPU)
    assert (quick.tuned, tuned.tuned) == (False, True)
    np.testing.assert_allclose(quick.errors, tuned.errors, rtol=1e-4)


def test_members_that_share_a_pack_may_learn_different_tasks():
    trials = [*tiny_grid(dimension=(1, 2)).trials(), *tiny_grid(data_seed=5).trials()]
    (pack,) = plan(trials, GPU)
    together = finished(pack, GPU).outcomes()
    for trial, outcome in zip(trials, together, strict=True):
        (alone,) = train([trial], machine=GPU)
        assert alone.test_error == pytest.approx(outcome.test_error, rel=1e-3)
    assert len({round(outcome.test_error, 6) for outcome in together}) == 3


@pytest.mark.parametrize(("task", "token_dim"), [("max_sum", 3), ("bowls_several", 2)])
def test_the_model_that_comes_back_has_the_error_that_is_reported(task, token_dim):
    """In the units of the task, in its own size, on data of the task's own making."""
    trials = tiny_grid(task=task, options={"token_dim": token_dim}, heads=(1, 3), steps=200).trials()
    for trial, outcome in zip(trials, train(trials, machine=CPU), strict=True):
        assert outcome.model.architecture == trial.architecture
        recipe = trial.training
        count = recipe.train_samples + recipe.validation_samples + recipe.test_samples
        samples = trial.task.build().sample(jax.random.PRNGKey(recipe.data_seed), count, trial.length)
        x, y = (np.asarray(array)[-recipe.test_samples :] for array in samples)
        predicted = np.asarray(put_out(outcome.model, x), np.float64)
        error = np.mean(np.mean((predicted - y) ** 2, axis=0) / np.var(y.astype(np.float64), axis=0))
        assert outcome.test_error == pytest.approx(error, rel=1e-3)


def test_errors_are_summed_in_double_precision():
    random = np.random.default_rng(0)
    truth = random.normal(size=(1, 5000, 1)).astype(np.float32)
    predicted = (truth + 1e-4 * random.normal(size=truth.shape)).astype(np.float32)
    squares = [(float(a) - float(b)) ** 2 for a, b in zip(predicted.ravel(), truth.ravel(), strict=True)]
    mean = math.fsum(map(float, truth.ravel())) / 5000
    variance = math.fsum((float(value) - mean) ** 2 for value in truth.ravel())
    found = sample_costs(predicted, Split(truth, truth), np.array([0]), "squared").mean(axis=1)
    assert found[0] == pytest.approx(math.fsum(squares) / variance, rel=1e-12)


def test_a_member_that_diverges_is_marked_and_harms_no_other():
    trials = tiny_grid(learning_rate=(1e-3, 1e38), clip=1e30).trials()
    calm, wild = train(trials, machine=CPU)
    assert wild.diverged and not calm.diverged and math.isfinite(calm.test_error)
    (alone,) = train(trials[:1], machine=CPU)
    assert alone.test_error == calm.test_error
    (early,) = train(tiny_grid(learning_rate=(1e38,), clip=1e30, warmup=0).trials(), machine=CPU)
    assert early.diverged and math.isnan(early.test_error) and math.isnan(early.validation_error)


def test_the_best_state_is_kept_not_the_last():
    """A tiny training set overfits: the kept state is that of the least validation error."""
    trials = tiny_grid(train_samples=4, steps=400, learning_rate=(3e-2,), warmup=10).trials()
    (pack,) = plan(trials, CPU)
    training = PackTraining(pack, CPU)
    seen = []
    while not training.finished:
        training._periods = 1
        training.chunk()
        model = jax.tree.map(lambda leaf: np.asarray(leaf)[0], training.state.model)
        split = training.data.validation
        seen.append(float(np.mean((put_out(model, split.x[0]) - split.y[0]) ** 2)))
    (outcome,) = training.outcomes()
    assert outcome.best_step == 10 * (1 + int(np.argmin(seen))) < 400
    assert float(training.errors[0]) == pytest.approx(min(seen), rel=1e-4)


@pytest.mark.long
def test_long_runs_agree_in_distribution():
    """After thousands of steps rounding has grown: padded members differ, but not as a population."""
    trials = tiny_grid(steps=1500, seed=tuple(range(8)), batch_size=32, learning_rate=(1e-2,)).trials()
    packs = [Pack(trials, replace(trials[0].architecture, heads=heads)) for heads in (2, 4)]
    bare, padded = (np.log([each.test_error for each in finished(pack, GPU).outcomes()]) for pack in packs)
    assert abs(np.median(bare) - np.median(padded)) < 2 * max(np.std(bare), 0.05)
