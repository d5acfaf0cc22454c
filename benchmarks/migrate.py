"""Gives committed results the keys and specs of today. Every other column stays as it is, to the last bit.

python benchmarks/migrate.py [FRAME.parquet ...]     those of benchmarks/results unless others are named
"""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from recording import RESULTS

from headcount.results.files import write_whole
from headcount.results.schema import renamed_trials, upgraded


def migrate(path: Path) -> dict[str, str]:
    """Rewrite a frame where it has rows of an earlier version; returns the keys that changed."""
    before = pq.read_table(path)
    after, renamed = upgraded(before), renamed_trials(before)
    kept = [name for name in before.column_names if name not in ("trial", "spec")]
    # As bytes of the Arrow format: NaN equals NaN, and 0.0 is not -0.0.
    assert _bytes(after.select(kept)) == _bytes(before.select(kept)), f"{path}: a number changed"
    assert after.schema == before.schema and len(set(renamed.values())) == len(renamed)
    if renamed:
        write_whole(path, lambda file: pq.write_table(after, file))
    return renamed


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


if __name__ == "__main__":
    for path in [Path(name) for name in sys.argv[1:]] or sorted(RESULTS.glob("*.parquet")):
        print(f"{path}: {len(migrate(path))} trials renamed in {pq.read_metadata(path).num_rows} rows")
