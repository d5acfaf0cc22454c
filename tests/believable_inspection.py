"""inspect.json and plan.json of a model that does not exist."""

import numpy as np

LAYERS, HEADS, TOLERANCE = 12, 12, 0.05


def rise(mean, *, width=0.25, floor=0.002):
    half = width * abs(mean) + floor
    return {"mean": mean, "low": mean - half, "high": mean + half, "samples": 154}


def down(heads, needed, *, steepness=3.0, tolerance=TOLERANCE):
    """A curve from all heads to the first that fails."""
    steps = []
    for count in range(heads, 0, -1):
        judged = rise(0.7 * tolerance * (heads - count) / max(heads - needed, 1))
        if count < needed:
            judged = rise(steepness * tolerance)
        steps.append({"heads": count, "judged": rise(0.0, floor=0.0) if count == heads else judged})
        if count < needed:
            break
    return steps


def believable_inspection(
    *, layers=LAYERS, heads=HEADS, kv_heads=None, measure="KL divergence", grouped=None, entries=()
):
    """Both files; `entries` are more of inspect.json, `grouped` is that of plan.json."""
    random = np.random.default_rng(0)
    kv_heads, total = kv_heads or heads, layers * heads
    needed = [int(random.integers(max(heads // 4, 1), max(heads * 3 // 4, 1) + 1)) for _ in range(layers)]
    free = [min(heads, need + 1) for need in needed]
    uniform = max(1, heads * 2 // 3)
    kept = {
        "uniform": [sorted(random.permutation(heads)[:uniform].tolist()) for _ in range(layers)],
        "free": [sorted(random.permutation(heads)[:count].tolist()) for count in free],
    }
    names = [f"encoder.layer.{place}.attention" for place in range(layers)]
    solutions = {
        name: {
            "heads": sum(map(len, each)),
            "counts": [len(row) for row in each],
            "judged": rise(0.031),
            "reported": rise(0.034),
        }
        for name, each in kept.items()
    }
    rows = [
        {
            "layer": name,
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": 64,
            "needed": need,
            "low": max(need - 1, 1),
            "high": min(need + 1, heads),
            "verdict": "counted",
            "rise": 0.03,
            "rise_low": 0.02,
            "rise_high": 0.04,
            "uniform": len(kept["uniform"][place]),
            "free": len(kept["free"][place]),
            "kept": kept["free"][place],
        }
        for place, (name, need) in enumerate(zip(names, needed, strict=True))
    ]
    gone = total - solutions["free"]["heads"]
    inspection = {
        "sentence": f"{gone} of {total} heads can go: {measure} 0.034 (0.0235 to 0.0445), tolerance 0.05.",
        "measure": measure,
        "tolerance": TOLERANCE,
        "heads": total,
        **solutions,
        "layers": rows,
        "curves": {
            "uniform": [
                {"heads": layers * (heads - gone), "judged": judged}
                for gone, judged in enumerate(step["judged"] for step in down(heads, uniform))
            ],
            "free": down(total, solutions["free"]["heads"], steepness=1.1)[:: max(total // 24, 1)],
            "alone": [down(heads, need) for need in needed],
        },
        "ways_to_choose": {"elimination": 0.04, "gradient": 0.09},
        "samples": 512,
        "seconds": 74.2,
        "version": "0",
        **dict(entries),
    }
    plan = {
        "model": "5f3a9c0d17e2",
        "measure": measure,
        "tolerance": TOLERANCE,
        "layers": [{"name": name, "heads": heads, "kv_heads": kv_heads, "head_dim": 64} for name in names],
        **{
            name: {"heads": solutions[name]["heads"], "kept": kept[name], "judged": rise(0.031)}
            for name in kept
        },
        "grouped": grouped,
        "version": "0",
    }
    return inspection, plan


def baselines(total=LAYERS * HEADS):
    """Other ways to remove heads, far worse."""
    worse = {"random": 9, "magnitude": 6, "gradient importance": 4.5, "gradient importance, refitted": 1.7}
    return [
        {"name": name, "heads": total - gone, "rise": mean, "low": 0.85 * mean, "high": 1.15 * mean}
        for name, factor in worse.items()
        for gone in (total // 6, total // 3, total // 2)
        for mean in [factor * 0.05 * (gone / total) ** 1.5 * 3]
    ]


GAINS = {
    "rows": [
        ["parameters", 22_713_216, 19_174_272, "0.844 (16% less)"],
        ["multiply-adds, 128 tokens", "2,750,000,000", "2,310,000,000", "0.84 (16% less)"],
        ["latency, batch 1 (ms)", 12.41, 12.38, "no gain (0.98 to 1.01)"],
        ["latency, batch 64 (ms)", 311.0, 268.2, "0.862 (0.84 to 0.88)"],
    ],
    "note": "With 128 tokens, what was removed is 16% of the multiply-adds.",
}
COLLISIONS = [
    {
        "layer": "encoder.layer.3.attention",
        "heads": 5,
        "first": "is <b>aspirin</b> safe with warfarin",
        "second": "is aspirin safe without warfarin and a word of length " + "w" * 90,
        "representation": 0.013,
        "output": 1.42,
    },
    {
        "layer": "encoder.layer.7.attention",
        "heads": 1,
        "first": "who wrote the bridge",
        "second": "who rode the bridge",
        "representation": 0.02,
        "output": 0.9,
    },
]
GROUPED = [
    {"kv_heads": count, "method": method, "refit": refit, "rise": {"judged": rise(at), "reported": rise(at)}}
    for count, least in ((6, 0.02), (3, 0.07))
    for method, refit, factor in (
        ("joint", True, 1),
        ("procrustes", True, 3),
        ("mean", True, 5),
        ("mean", False, 9),
    )
    for at in [least * factor]
]
FULL = {"baselines": baselines(), "grouped": GROUPED, "gains": GAINS, "collisions": COLLISIONS}
