"""Tables from files: CSV with its separator, Parquet, JSON lines."""

import csv
import gzip
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headcount.errors import InvalidInput
from headcount.validation import shown

if TYPE_CHECKING:
    import pandas as pd

TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET, LINES = (".parquet", ".pq"), (".jsonl", ".ndjson")
SEPARATORS = ",;\t|"
DECIMAL_COMMA = r"\s*[-+]?\d+,\d+\s*"


def ending_of(path: Path) -> str:
    """The end of a file's name, in lower case.

    >>> ending_of(Path("UP.CSV.GZ"))
    '.csv.gz'
    """
    return "".join(path.suffixes[-2:]).lower()


def frame_of(path: Path) -> "pd.DataFrame":
    """The table in a file."""
    import pandas as pd

    if ending_of(path).endswith(PARQUET):
        return arrow_of(path).to_pandas()
    if ending_of(path).endswith(LINES):
        return pd.DataFrame(columns_of_lines(path))
    if not ending_of(path).endswith(TEXT):
        kinds = ", ".join(TEXT + PARQUET + LINES)
        raise InvalidInput(f"{path}: expected a table for id, time or features: {kinds}")
    try:
        separator = _separator(path)
        frame = pd.read_csv(path, sep=separator)
        if separator != "," and _has_decimal_commas(frame):
            frame = pd.read_csv(path, sep=separator, decimal=",")
        return frame
    except pd.errors.EmptyDataError:
        raise InvalidInput(f"{path}: the file is empty") from None
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{path}: expected text in UTF-8, got another encoding or no text; save it as UTF-8"
        ) from None
    except (pd.errors.ParserError, OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"{path}: damaged: {str(error).partition(chr(10))[0]}") from None


def _separator(path: Path) -> str:
    """What stands between the names in the first line."""
    if ".tsv" in ending_of(path):
        return "\t"
    opened = gzip.open if ending_of(path).endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig") as file:
        header = file.readline()
    try:
        return csv.Sniffer().sniff(header, delimiters=SEPARATORS).delimiter
    except csv.Error:  # a single column, or names that look alike
        return max(SEPARATORS, key=header.count)


def _has_decimal_commas(frame: "pd.DataFrame") -> bool:
    texts = (frame[name].dropna() for name in frame.columns if frame[name].dtype.kind not in "biufmM")
    return any(len(text) and text.astype(str).str.fullmatch(DECIMAL_COMMA).mean() > 0.5 for text in texts)


def arrow_of(path: Path) -> Any:
    """The table in a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0].rpartition("': ")[2]
        raise InvalidInput(f"{path}: not Parquet, or damaged: {reason}") from None


def columns_of_lines(path: Path) -> dict[str, list[Any]]:
    """The values of each name, over all lines of JSON; every line has the same names."""
    columns: dict[str, list[Any]] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError:
                raise InvalidInput(f"{path}: damaged: line {number} is no JSON") from None
            if not isinstance(record, dict):
                raise InvalidInput(
                    f'{path}: expected lines such as {{"x": [[1, 2], [3, 4]], "y": 5}}, '
                    f"got {shown(record)} in line {number}"
                )
            if columns and columns.keys() != record.keys():
                odd = sorted(columns.keys() ^ record.keys())[0]
                raise InvalidInput(
                    f"{path}: expected the same names in every line, line {number} differs in {odd}"
                )
            for name, value in record.items():
                columns.setdefault(name, []).append(value)
    if not columns:
        raise InvalidInput(f"{path}: the file is empty")
    return columns
