"""Quotes of estimates: single ones, and how often they are right."""

from quoting import NOT_RUN, RESULTS, read_json, table

NOTES = "D was measured with one layer"  # the printed answer goes on from here to say what D does not tell

LAWS = {"in_use": "in use", "fitted": "fitted", "left_out": "fitted without the family of the task"}


def estimated(name: str) -> str:
    """What the command printed, up to its notes."""
    found = read_json(f"{name}.json")
    lines = found["printed"]
    end = next((place for place, line in enumerate(lines) if line.startswith(NOTES)), len(lines))
    text = "\n".join(lines[:end])
    return f"```\n{text}\n```\n\n({found['seconds']:.0f} s on {found['machine']}.)"


def dimension(name: str) -> str:
    """How often the estimate is right, and each task with what the baselines make of the same data."""
    found = read_json(f"{name}.json")
    baselines = list(found["tasks"][0]["baselines"])
    names = ("task", "T", "samples", "noise", "D", "estimate", "interval", "early", "seconds", *baselines)
    lines = [f"- {line.strip()}" for line in found["summary"]]
    lines += ["", f"({found['machine']}.)", "", "<details><summary>Every task</summary>", ""]
    rows = []
    for row in found["tasks"]:
        interval = "–" if row["interval"] is None else " to ".join(map(str, dict.fromkeys(row["interval"])))
        cells = (
            *(row["name"], row["length"], f"{row['samples']:,}", f"{row['noise']:.0%}"),
            *(row["true"] or "–", row["dimension"] or "cannot tell", interval, row["early"] or "–"),
            f"{row['seconds']:.0f}",
            *("–" if (cell := row["baselines"][baseline]) is None else cell for baseline in baselines),
        )
        rows.append(cells)
    return "\n".join([*lines, table(names, rows), "", "</details>"])


def calibration() -> str:
    """How often the estimate is right on the tasks that the law was calibrated with."""
    name = "dimension-calibration"
    return dimension(name) if (RESULTS / f"{name}.json").exists() else NOT_RUN


def law_fit() -> str:
    """The weights in use beside those fitted again, and how well both tell enough heads from too few."""
    if not (RESULTS / "law.json").exists():
        return NOT_RUN
    laws = read_json("law.json")["laws"]
    weights = [
        (look, name, used, f"{law['fitted'][name]:.1f} ({low:.1f} to {high:.1f})")
        for look, law in laws.items()
        for name, used in law["in_use"].items()
        for low, high in [law["intervals"][name]]
    ]
    scores = [
        (look, tasks, LAWS[which], f"{score['log_loss']:.3f}", f"{score['exact']} of {score['tasks']}")
        for look, law in laws.items()
        for tasks in ("calibration", "reported")
        for which, score in (law[tasks] or {}).items()
    ]
    return "\n".join(
        [
            table(("curve", "weight", "in use", "fitted (95% interval over tasks)"), weights),
            "",
            table(("curve", "tasks", "weights", "log loss", "exact"), scores),
        ]
    )


def exactness() -> str:
    """How often the estimate is right, in a sentence."""
    found = read_json("dimension.json")
    known = [row for row in found["tasks"] if not row["control"]]
    alarms = sum(row["control"] and row["verdict"] == "retrieval" for row in found["tasks"])
    right = sum(row["dimension"] == row["true"] for row in known)
    others = len(found["tasks"]) - len(known)
    return (
        f"Of {len(known)} tasks of known D, it names D on {right}; of {others} for which one head is enough "
        f"or nothing can be learnt,\nit calls {alarms or 'none'} a retrieval of more."
    )


def suite(name: str) -> str:
    """How often the estimate is right on tasks unlike those that it was made with, each with its answers."""
    path = RESULTS / f"suite-{name}.json"
    if not path.exists():
        return NOT_RUN
    found = read_json(path.name)
    lines = [f"- {line}" for line in found["summary"]]
    absent = f" Not run: {', '.join(found['not_run'])}." if found["not_run"] else ""
    lines += ["", f"({found['machine']}.{absent})", "", "<details><summary>Every task</summary>", ""]
    names = ("kind", "task", "right", "why", "estimate", "interval", "heads", "")
    rows = [
        (
            *(row["kind"], row["name"], _either(row["right"]), row["why"]),
            "cannot tell" if row["dimension"] is None else row["dimension"],
            "–" if row["interval"] is None else " to ".join(map(str, dict.fromkeys(row["interval"]))),
            row["recommended_heads"] or "–",
            {"right": "✓", "unsure": "cannot tell"}.get(row["judged"], row["judged"]),
        )
        for row in found["tasks"]
    ]
    return "\n".join([*lines, table(names, rows), "", "</details>"])


def _either(right: list[int]) -> str:
    return "nothing to learn" if right == [0] else " or ".join(map(str, right))


def other_kinds() -> str:
    """How often it is right on tasks unlike those that it was made with, in sentences."""
    names = ("before-cpu", "mending-cpu", "held-out-cpu", "held-out")
    before, after, cores, gpu = map(_judged, names)
    both = before.keys() & after.keys()
    return (
        "On tasks of other kinds, kept for a single run after the last change of a rule, it is right on "
        f"{sum(cores.values())} of {len(cores)}\non two cores, and on {sum(gpu.values())} with the longer "
        f"recipe of a GPU:\n{_corrected('held-out')} if one answer written down wrongly is corrected. "
        "On those that rules were changed with in view\nit was right on "
        f"{sum(before[name] for name in both)} of {len(both)} before, and is on "
        f"{sum(after[name] for name in both)} of {len(both)} now."
    )


def _judged(name: str) -> dict[str, bool]:
    """Whether each task of a run was right."""
    tasks = read_json(f"suite-{name}.json")["tasks"]
    return {row["name"]: row["judged"] == "right" for row in tasks}


def _corrected(name: str) -> int:
    """How many tasks of a run are right by the corrected answers."""
    lines = read_json(f"suite-{name}.json")["summary"]
    found = next(line for line in lines if line.startswith("right, with the corrections"))
    return int(found.partition(": ")[2].split()[0])
