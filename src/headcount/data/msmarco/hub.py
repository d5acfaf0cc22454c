"""MS MARCO from the Hugging Face hub, in the form that the MTEB benchmark provides."""

from collections.abc import Iterator
from typing import Any

from headcount.data.msmarco.source import Collection, Judged, Validation, refused
from headcount.extras import needed
from headcount.validation import shown

DATA_SET = "mteb/msmarco"


def hub(validation: Validation) -> Collection:
    """The official passages, training queries and judgements; if wanted, the small development set."""
    load_dataset = needed("datasets", extra="hub", purpose="MS MARCO from the hub").load_dataset

    def rows(part: str, split: str, *columns: str, **options: Any) -> Iterator[tuple[Any, ...]]:
        try:
            for row in load_dataset(DATA_SET, part, split=split, **options):
                yield tuple(row[column] for column in columns)
        except Exception as error:  # network and format errors come in many types
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            expected = f"a connection, and the columns {', '.join(columns)}"
            raise refused(f"hub {DATA_SET}, {part}", f"cannot be fetched ({reason})", expected) from None

    def texts(part: str, **options: Any) -> Iterator[tuple[str, str]]:
        for name, text in rows(part, part, "_id", "text", **options):
            if not isinstance(text, str):
                raise refused(f"hub {DATA_SET}, {part}", f"{name} has the text {shown(text)}", "a string")
            yield str(name), text

    queries = dict(texts("queries"))

    def judged(split: str) -> Judged:
        where = f"hub {DATA_SET}, {split}"
        relevant: dict[str, list[str]] = {}
        for query, passage, score in rows("default", split, "query-id", "corpus-id", "score"):
            if not isinstance(score, int | float):
                raise refused(where, f"query {query} has the score {shown(score)}", "a number")
            if score > 0:
                relevant.setdefault(str(query), []).append(str(passage))
        unknown = next((query for query in relevant if query not in queries), None)
        if unknown is not None:
            raise refused(where, f"query {unknown} has judgements but no text", "a text for every query")
        return Judged(where, queries, relevant)

    def passages() -> Iterator[tuple[str, str]]:
        return texts("corpus", streaming=True)

    dev = judged("dev") if validation == "dev" else None
    return Collection(f"hub {DATA_SET}", passages, judged("train"), dev)
