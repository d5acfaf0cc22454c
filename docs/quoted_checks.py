"""What is quoted about tests of `hc.inspect`: heads that were planted, and its promise."""

from quoting import NOT_RUN, RESULTS, read_json, table


def planted_heads() -> str:
    """How often 4 heads that were spread over 8 are counted as 4."""
    if not (RESULTS / "trained-planted.json").exists():
        return NOT_RUN
    found = read_json("trained-planted.json")
    rows = [
        (
            name,
            f"{each['layers_counted_as_planted']} of {each['layers']}",
            f"{each['uniform_plans_as_planted']} of {each['models']}",
            f"{each['free_plans_as_planted']} of {each['models']}",
        )
        for name, each in found["in_short"].items()
    ]
    names = ("models", "layers counted as 4", "uniform plans with 4 each", "free plans with 4 each")
    about = (
        f"Random models of 2 to 4 layers; tolerance {found['tolerance']:g} of the KL divergence. "
        f"({found['machine']}.)"
    )
    return f"{table(names, rows)}\n\n{about}"


def promise() -> str:
    """How often a plan loses more than its tolerance on samples that nothing has seen."""
    if not (RESULTS / "trained-promise.json").exists():
        return NOT_RUN
    found = read_json("trained-promise.json")
    rows = []
    for name in ("uniform", "free"):
        each = found[name]
        rows.append(
            (
                name,
                f"{each['broken']} of {found['runs']}",
                each["runs_with_heads_removed"],
                f"{each['mean_share_kept']:.0%}",
                f"{100 * each['mean_test_rise']:.2f}",
            )
        )
    names = ("plan", "broken", "runs that removed heads", "heads kept", "points lost on average")
    tests = found["rows"][0]["free"]["test"]["samples"]
    about = (
        f"{found['models']} small transformers that classify digits, maxima over tokens, values of keys and "
        f"CIFAR-10 at 16 × 16 pixels, inspected with 4,000 to {max(r['samples'] for r in found['rows']):,} "
        f"samples at a tolerance of {100 * found['tolerance']:g} points of accuracy; {tests:,} test samples "
        f"each. ({found['machine']}.)"
    )
    return f"{table(names, rows)}\n\n{about}"
