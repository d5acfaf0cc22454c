"""Gives committed results the keys and specs of today. Every other column stays as it is, to the last bit.

python benchmarks/migrate.py [FRAME.parquet ...]     those of benchmarks/results unless others are named
python benchmarks/migrate.py --fingerprint OLD=NEW   also where the same data has another fingerprint now
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from recording import RESULTS

from headcount.results.files import write_whole
from headcount.results.shards import shape_of, upgraded
from headcount.trials.trial import as_json, key_of


def migrate(path: Path, fingerprints: Mapping[str, str]) -> dict[str, str]:
    """Rewrite a frame where keys change, from those of an earlier version or data; returns these keys."""
    before = pq.read_table(path)
    after = upgraded(before)
    rows = [
        _with_fingerprint(trial, spec, fingerprints)
        for trial, spec in zip(after["trial"].to_pylist(), after["spec"].to_pylist(), strict=True)
    ]
    for column, values in zip(("trial", "spec"), zip(*rows, strict=True), strict=True):
        field = after.field(column)
        after = after.set_column(after.column_names.index(column), field, pa.array(values, field.type))
    kept = [name for name in before.column_names if name not in ("trial", "spec")]
    # As bytes of the Arrow format: NaN equals NaN, and 0.0 is not -0.0.
    assert _bytes(after.select(kept)) == _bytes(before.select(kept)), f"{path}: a number changed"
    pairs = zip(before["trial"].to_pylist(), after["trial"].to_pylist(), strict=True)
    renamed = {old: new for old, new in pairs if old != new}
    assert after.schema == before.schema and len(set(renamed.values())) == len(renamed)
    if renamed:
        write_whole(path, lambda file: pq.write_table(after, file))
    return renamed


def _with_fingerprint(trial: str, spec: str, fingerprints: Mapping[str, str]) -> tuple[str, str]:
    written = json.loads(spec)
    options = dict(written["task"]["options"])
    if options.get("fingerprint") not in fingerprints:
        return trial, spec
    shape = shape_of(written["architecture"])
    assert (key_of(written, shape), as_json(written)) == (trial, spec), f"{trial} is not the key of its spec"
    options["fingerprint"] = fingerprints[options["fingerprint"]]
    written["task"]["options"] = [list(option) for option in options.items()]
    return key_of(written, shape), as_json(written)


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("frames", nargs="*", type=Path, default=sorted(RESULTS.glob("*.parquet")))
    parser.add_argument("--fingerprint", action="append", default=[], metavar="OLD=NEW")
    chosen = parser.parse_args()
    changed = dict(pair.split("=") for pair in chosen.fingerprint)
    for path in chosen.frames:
        print(
            f"{path}: {len(migrate(path, changed))} trials renamed in {pq.read_metadata(path).num_rows} rows"
        )
