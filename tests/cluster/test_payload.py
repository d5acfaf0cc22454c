"""What travels to workers: each data set once, and packs without theirs."""

import pickle

import numpy as np
from reproduce.real.small import image_trial

from headcount.cluster.payload import Payload, with_data
from headcount.data.arrays import data_set
from headcount.engine.train import plan_all
from headcount.estimate.members import MemberRecipe
from headcount.trials.machine import Machine


def test_packs_travel_light_and_get_their_data_back():
    x = np.random.default_rng(0).normal(size=(4_000, 8, 2))
    trials = (*MemberRecipe().trials(data_set(x, x.max(axis=1)), (1, 2)), image_trial())
    payload = Payload.of(trials)
    assert len(payload.data) == 2
    for pack in plan_all(trials, Machine("cpu", "a cpu", 1, 8 << 30)):
        light = pickle.loads(pickle.dumps(with_data(pack, {})))
        assert len(pickle.dumps(light)) < 10_000
        assert all(trial.task.data is None for trial in light.trials)
        back = with_data(light, payload.data)
        assert back == pack and [trial.id for trial in back.trials] == [trial.id for trial in pack.trials]
        assert {id(trial.task.data) for trial in back.trials} == {id(pack.trials[0].task.data)}
