"""MS MARCO from the hub of Hugging Face, in the form that the MTEB benchmark gives it."""

from collections.abc import Iterator, Mapping
from typing import Any

from headcount.tasks.extras import needed
from headcount.tasks.msmarco_source import Collection, Judged, refused

DATA_SET = "mteb/msmarco"


def hub() -> Collection:
    """The official passages, training queries and judgements, and the small development set."""
    load_dataset = needed("datasets", extra="hub", purpose="MS MARCO from the hub").load_dataset

    def rows(part: str, split: str, **options: Any) -> Iterator[Mapping[str, Any]]:
        try:
            yield from load_dataset(DATA_SET, part, split=split, **options)
        except OSError as error:
            reason = str(error).partition("\n")[0]
            raise refused(
                f"hub {DATA_SET}, {part}", f"cannot be fetched ({reason})", "a connection"
            ) from None

    texts = {row["_id"]: row["text"] for row in rows("queries", "queries")}

    def judged(split: str) -> Judged:
        where = f"hub {DATA_SET}, {split}"
        relevant: dict[str, list[str]] = {}
        for row in rows("default", split):
            if row["score"] > 0:
                relevant.setdefault(str(row["query-id"]), []).append(str(row["corpus-id"]))
        unknown = next((query for query in relevant if query not in texts), None)
        if unknown is not None:
            raise refused(where, f"query {unknown} has judgements but no text", "a text for every query")
        return Judged(where, texts, relevant)

    def passages() -> Iterator[tuple[str, str]]:
        return ((row["_id"], row["text"]) for row in rows("corpus", "corpus", streaming=True))

    return Collection(f"hub {DATA_SET}", passages, judged("train"), judged("dev"))
