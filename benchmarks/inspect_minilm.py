"""The whole way of one model: MiniLM inspected, shrunk, loaded again, and both as re-rankers of MS MARCO.

    python benchmarks/inspect_minilm.py --weights PACKAGE --data FOLDER
    python benchmarks/inspect_minilm.py --weights half --data FOLDER --device cuda

`headcount inspect` and `headcount shrink` see texts of the training split alone, without labels. The held-out
lists of 64 are ranked by the whole model and by the shrunk one, as it is loaded from its folder. Writes
benchmarks/results/inspect-minilm.json, and the page of the inspection to --page.

With --device the inspection alone is run there, by `hc.inspect` on texts as numbers of tokens: it needs no
tokenizer and no page, and the weights may be those that trained_minilm.py wrote in half precision. Writes
benchmarks/results/inspect-minilm-cuda.json.
"""

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import minilm
import numpy as np
import torch
import transformers
from recording import RESULTS, about, parser_of, write_json

import headcount as hc

TOLERANCE = 0.02  # of the cosine distance


def texts_of(data: Path, count: int) -> list[str]:
    """Training queries and their passages, half of each."""
    with gzip.open(data / "msmarco_queries.jsonl.gz", "rt", encoding="utf-8") as file:
        queries = [each for each in map(json.loads, file) if each["split"] == "train"]
    with gzip.open(data / "msmarco_passages.jsonl.gz", "rt", encoding="utf-8") as file:
        passages = {each["p"]: each["text"] for each in map(json.loads, file)}
    chosen = np.random.default_rng(0).permutation(len(queries))[: count // 2]
    some = [queries[place] for place in chosen]
    return [text for each in some for text in (each["query"], passages[each["pos"][0]])]


def run(folder: Path, *arguments: str) -> tuple[str, float]:
    """What a command prints, and how long it takes."""
    command = [str(Path(sys.executable).with_name("headcount")), *arguments]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout, time.perf_counter() - began


def ranks(model: Any, lists: minilm.Lists) -> np.ndarray:
    return minilm.ranked(model.eval().requires_grad_(False), lists)


def batches_of(data: Path, count: int, device: str) -> list[dict[str, torch.Tensor]]:
    """Training queries and passages, half of each, as padded numbers of tokens.

    What is timed is the first batch: that of middling length.
    """
    lists = minilm.read_lists(data, "train")
    texts = minilm.drawn(lists, count // 2, count // 2)
    found = [
        {"input_ids": ids, "attention_mask": mask.long()} for _, ids, mask in minilm.padded(texts, device)
    ]
    return [found.pop(len(found) // 2), *found]


def inspect_there(chosen: Namespace) -> None:
    """The inspection alone, and how long it takes."""
    model = minilm.load(chosen.weights).to(chosen.device)
    batches, stages = batches_of(chosen.data, chosen.texts, chosen.device), []
    began = time.perf_counter()
    found = hc.inspect(
        model,
        batches,
        tolerance=TOLERANCE,
        progress=lambda line: stages.append([round(time.perf_counter() - began, 1), line]),
    )
    result = {
        **found.to_json(),
        "seconds": time.perf_counter() - began,
        "stages": stages,
        "texts": chosen.texts,
        **about(f"torch {torch.__version__}", f"transformers {transformers.__version__}"),
    }
    name = f"inspect-minilm-{torch.device(chosen.device).type}.json"
    write_json(RESULTS / name, result, indent=1)
    print(json.dumps({name: result[name] for name in ("sentence", "seconds", "stages")}))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="the installed package")
    parser.add_argument("--data", type=Path, required=True, help="folder with MS MARCO; see convert_data.py")
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--half", action="store_true", help="rank in bfloat16")
    parser.add_argument("--page", type=Path, help="where to copy the page to")
    parser.add_argument("--device", help="inspect there, and nothing else")
    chosen = parser.parse_args()
    if chosen.device:
        inspect_there(chosen)
        return
    lists = minilm.read_lists(chosen.data, "heldout")
    kind = torch.bfloat16 if chosen.half else torch.float32
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [json.dumps({"text": text}) for text in texts_of(chosen.data, chosen.texts)]
        (folder / "texts.jsonl").write_text("\n".join(lines), encoding="utf-8")
        model = shutil.copytree(chosen.weights / "model", folder / "minilm")
        options = ("--tolerance", str(TOLERANCE))
        _, seconds = run(folder, "inspect", "minilm", "texts.jsonl", "--out", "inspect", *options)
        printed, shrinking = run(folder, "shrink", "inspect/plan.json", "--out", "small", "--as", "code")
        found = json.loads((folder / "inspect" / "inspect.json").read_text())
        if chosen.page is not None:
            shutil.copy(folder / "inspect" / "report.html", chosen.page)
        whole = ranks(minilm.load(chosen.weights).to(kind), lists)
        loaded = transformers.AutoModel.from_pretrained(folder / "small", trust_remote_code=True)
        change = 100 * (ranks(loaded.to(kind), lists) - whole)
        megabytes = [(each / "model.safetensors").stat().st_size / 1e6 for each in (model, folder / "small")]
    wanted = ("sentence", "measure", "tolerance", "heads", "uniform", "free", "layers", "gains")
    result = {
        **{name: found.get(name) for name in wanted},
        "seconds": seconds,
        "shrinking_seconds": shrinking,
        "texts": len(lines),
        "printed": printed.replace(str(folder), "").splitlines(),
        "megabytes": megabytes,
        "queries": len(whole),
        "mrr": float(whole.mean()),
        "change": float(change.mean()),
        "half_width": float(1.96 * change.std(ddof=1) / np.sqrt(len(change))),
        "precision": str(kind).removeprefix("torch."),
        **about(f"torch {torch.__version__}", f"transformers {transformers.__version__}"),
    }
    write_json(RESULTS / "inspect-minilm.json", result, indent=1)
    print(json.dumps({name: result[name] for name in ("sentence", "seconds", "change", "half_width")}))


if __name__ == "__main__":
    main()
