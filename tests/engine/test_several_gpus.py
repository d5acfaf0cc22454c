"""Several GPUs share a pack out. Here they are pieces of one processor, as XLA can make them."""

import os
import subprocess
import sys

import pytest
from tiny import tiny_grid

from headcount.errors import InvalidInput
from headcount.trials.machine import Machine
from headcount.trials.pack import plan

PROGRAM = """
import jax, numpy as np
from headcount.trials.machine import Machine
from headcount.engine.train import PackTraining
from headcount.trials.pack import plan
from tiny import tiny_grid

found = []
for gpus in (1, 3):
    machine = Machine("gpu", "pieces of a processor", gpus, gpus << 30)
    (pack,) = plan(tiny_grid(seed=(0, 1, 2, 3)).trials(), machine)
    assert len(pack.trials) % 3 == 1, "the last piece is filled up"
    training = PackTraining(pack, machine)
    while not training.finished:
        training.chunk()
        assert len(jax.tree.leaves(training.state)[0]) == len(pack.trials)
    found.append([outcome.test_error for outcome in training.outcomes()])
    assert len(jax.tree.leaves(training.data)[0].devices()) == gpus
print(np.max(np.abs(np.log(np.array(found[0]) / np.array(found[1])))))
"""


def test_members_learn_the_same_on_one_and_on_three():
    environment = {
        **os.environ,
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=3",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, timeout=200)
    assert float(done.stdout) < 0.02


@pytest.mark.parametrize("count", [1, 3])
def test_a_member_must_fit_one_of_them_and_three_hold_and_train_three_times_as_many(count):
    with pytest.raises(InvalidInput, match=r"at most 0\.0 GiB"):
        plan(tiny_grid().trials(), Machine("gpu", "small", count, count << 14))
    assert Machine("gpu", "any", count, count * 1000).holding(300) == 3 * count
    assert Machine("cpu", "any", count, 1000).holding(300) == 3
    packs = plan(tiny_grid(seed=tuple(range(1600))).trials(), Machine("gpu", "large", count, count << 36))
    assert max(len(pack.trials) for pack in packs) == 512 * count
