"""Trains a tiny trial into a folder where the parts for people cannot be imported."""

import sys

BLOCKED = ["pydantic", "altair", "vl_convert", "jinja2", "typer", "rich"]
ABOVE = tuple(f"headcount.{part}" for part in ("api", "cluster", "commands", "report", "reproduce"))


def main(folder: str) -> None:
    sys.modules.update(dict.fromkeys(BLOCKED))  # None: importing it raises
    import headcount

    grid = headcount.Grid(
        headcount.TaskChoice.of("max_sum", token_dim=2),
        dimension=(2,),
        length=(4,),
        heads=(1,),
        head_dim=(2,),
        hidden=(4,),
        training=headcount.Training(
            steps=40,
            evaluate_every=10,
            train_samples=64,
            validation_samples=32,
            test_samples=32,
            batch_size=16,
        ),
    )
    (outcome,) = headcount.train(grid.trials())
    frame = headcount.sweep(grid.trials(), folder)
    loaded = [name for name in sys.modules if name.startswith(ABOVE)]
    assert not loaded, loaded
    assert frame["test_error"].tolist() == [outcome.test_error]
    print("trained", outcome.diverged, outcome.test_error > 0)


if __name__ == "__main__":
    main(sys.argv[1])
