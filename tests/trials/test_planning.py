import itertools
from collections import Counter
from functools import partial
from types import SimpleNamespace

import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_grid

from headcount.engine.member import advance
from headcount.engine.train import PackTraining
from headcount.errors import InvalidInput
from headcount.trials import pack as packing
from headcount.trials.machine import Machine, this_machine
from headcount.trials.pack import plan

CPU = Machine("cpu", "a cpu", lanes=2, memory=4 << 30)
GPU = Machine("gpu", "a gpu", lanes=1, memory=32 << 30)

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple)


@settings(max_examples=40)
@given(
    heads=sizes,
    length=sizes,
    head_dim=sizes,
    seeds=st.integers(1, 30),
    steps=st.sampled_from([10, 1000, 100_000]),
    memory=st.integers(10**7, 10**9),
    kind=st.sampled_from(["cpu", "gpu"]),
)
def test_every_trial_is_in_exactly_one_pack_that_holds_it(
    heads, length, head_dim, seeds, steps, memory, kind
):
    trials = tiny_grid(
        heads=heads, length=length, head_dim=head_dim, seed=tuple(range(seeds)), steps=steps, warmup=0
    ).trials()
    machine = Machine(kind, "any", lanes=2, memory=memory)
    packs = plan(trials, machine)
    assert Counter(trial.id for pack in packs for trial in pack.trials) == Counter(t.id for t in trials)
    for pack in packs:
        assert len({trial.length for trial in pack.trials}) == 1
        assert max(trial.architecture.heads for trial in pack.trials) <= pack.architecture.heads
        assert max(trial.architecture.head_dim for trial in pack.trials) <= pack.architecture.head_dim
        held = len(pack.trials) * packing.member_bytes(pack.architecture, pack.trials[0])
        assert held <= memory
    assert plan(trials, machine) == packs


LONG = {"length": (128,), "batch_size": 256, "steps": 100_000}


@pytest.mark.parametrize("machine", [CPU, GPU], ids=["cpu", "gpu"])
def test_short_runs_share_a_shape_and_long_runs_do_not(machine):
    short = plan(tiny_grid(heads=(1, 2, 3, 4, 5), seed=(0, 1, 2)).trials(), machine)
    assert {pack.architecture.heads for pack in short} == {5}
    assert len(short) == 1 or machine is CPU
    long = plan(tiny_grid(heads=(1, 5), hidden=(64,), seed=tuple(range(48)), **LONG).trials(), machine)
    assert {pack.architecture.heads for pack in long} == {1, 5}


def test_buckets_take_the_least_time_of_all_ways_to_cut_the_column():
    trials = tiny_grid(heads=(1, 2, 4, 8), length=(64,), batch_size=64, steps=4_000, seed=(0, 1)).trials()
    chosen = {pack.architecture.heads for pack in plan(trials, CPU)}

    def seconds(cuts: tuple[int, ...]) -> float:
        columns = [1, 2, 4, 8]
        total = 0.0
        for start, end in itertools.pairwise([0, *cuts, 4]):
            members = [trial for trial in trials if trial.architecture.heads in columns[start:end]]
            largest = max(members, key=lambda trial: trial.architecture.heads)
            step = packing.step_seconds(largest.architecture, largest, CPU)
            total += packing.COSTS["cpu"].compile + len(members) * 4_000 / CPU.lanes * step
        return total

    best = min((cuts for size in range(4) for cuts in itertools.combinations((1, 2, 3), size)), key=seconds)
    assert chosen == {[1, 2, 4, 8][end - 1] for end in (*best, 4)}


def test_what_is_finished_leaves_the_other_packs_as_they_were():
    trials = tiny_grid(heads=(1, 2, 3), seed=tuple(range(12))).trials()
    packs = plan(trials, CPU)
    finished = {trial.id for trial in packs[0].trials}
    left = [rest for pack in packs if (rest := pack.without(finished))]
    assert left == packs[1:]
    some = packs[0].without([packs[0].trials[0].id])
    assert (some.trials, some.architecture) == (packs[0].trials[1:], packs[0].architecture)


def test_grouped_heads_share_a_pack_only_with_groups_of_the_same_size():
    full = tiny_grid(heads=(2, 4)).trials()
    grouped = tiny_grid(heads=(2, 4), model=(("kv_heads", 2),)).trials()
    packs = plan([*full, *grouped], GPU)
    for pack in packs:
        groups = {t.architecture.heads // t.architecture.key_value_heads for t in pack.trials}
        assert groups == {pack.architecture.heads // pack.architecture.key_value_heads}
    assert {len(pack.trials) for pack in packs} == {1, 3}


longer = partial(pytest.param, marks=pytest.mark.long)


@pytest.mark.parametrize(
    "change",
    [
        {},
        longer({"heads": (5,), "hidden": (32,), "length": (64,), "batch_size": 64}),
        longer({"heads": (1,), "hidden": (64,), "head_dim": (32,), "length": (16,)}),
        longer({"heads": (4,), "layers": (2,), "length": (24,), "batch_size": 32}),
        {"heads": (4,), "layers": (2,), "model": {"layer_norm": True, "residual": True, "feedforward": 16}},
    ],
    ids=["tiny", "wide", "one head", "two layers", "two layers, all options"],
)
def test_a_member_takes_no_more_memory_than_was_planned(change):
    """Against what the compiler says it allocates for a vmapped pack."""
    trials = tiny_grid(**change, seed=tuple(range(8))).trials()
    (pack,) = plan(trials, GPU)
    training = PackTraining(pack, GPU)
    program = partial(advance, training=training.training, slicing=training.slicing)
    batched = jax.jit(jax.vmap(program, in_axes=(0, 0, None, None)))
    compiled = batched.lower(training.state, training.conditions, training.data, 1).compile()
    allocated = compiled.memory_analysis()
    used = allocated.temp_size_in_bytes + allocated.argument_size_in_bytes + allocated.output_size_in_bytes
    assert used <= len(trials) * packing.member_bytes(pack.architecture, trials[0])


def test_a_member_that_no_memory_holds_is_refused_by_its_sizes():
    with pytest.raises(InvalidInput, match=r"hidden = 100000000.*GiB"):
        plan(tiny_grid(hidden=(100_000_000,)).trials(), GPU)


@pytest.mark.parametrize(("count", "name"), [(1, "H200"), (2, "2 × H200")])
def test_gpus_hold_members_in_half_of_their_memory(count, name, monkeypatch):
    gpu = SimpleNamespace(platform="gpu", device_kind="H200", memory_stats=lambda: {"bytes_limit": 8 << 30})
    monkeypatch.setattr("jax.local_devices", lambda: [gpu] * count)
    found = this_machine.__wrapped__()
    assert found == Machine("gpu", name, count, count * (4 << 30))
    assert found.memory_for_one == 4 << 30 and found.holding(1 << 30) == 4 * count
