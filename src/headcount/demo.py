"""The grid of `headcount demo`: small enough for a laptop, large enough to see the transition."""

from headcount.engine import Grid, TaskChoice, Training, Trial


def demo_trials(*, seed: int = 0) -> tuple[Trial, ...]:
    """Sums of D maxima for D = 2 and 3: heads from 1 to D + 1, three lengths, two starts each."""
    training = Training(
        steps=3_000,
        batch_size=128,
        validation_samples=1_000,
        test_samples=4_000,
        data_seed=seed,
    )
    grids = [
        Grid(
            TaskChoice.of("max_sum", token_dim=3, directions="orthonormal"),
            dimension=(dimension,),
            length=(8, 16, 32),
            heads=tuple(range(1, dimension + 2)),
            head_dim=(4,),
            hidden=(16,),
            learning_rate=(1e-2,),
            seed=(seed, seed + 1),
            training=training,
        )
        for dimension in (2, 3)
    ]
    return tuple(trial for grid in grids for trial in grid.trials())
