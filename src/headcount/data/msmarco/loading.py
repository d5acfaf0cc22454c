"""MS MARCO passage ranking: a query, one passage that answers it, and T - 1 that nearly do."""

from dataclasses import replace
from pathlib import Path

from headcount.data.msmarco import embeddings
from headcount.data.msmarco.files import is_official, official
from headcount.data.msmarco.hub import hub
from headcount.data.msmarco.lists import VOCABULARY, rankings_of
from headcount.data.msmarco.rankings import Rankings
from headcount.data.msmarco.source import Options, refused, unreadable

HUB = "hub"


def load(path: Path | str, options: Options | None = None) -> Rankings:
    """Lists of candidates from a folder, or from the Hugging Face hub if the path is "hub".

    The folder holds the official `collection.tsv`, `queries.train.tsv`, `qrels.train.tsv` and, if there is
    one, a run such as `top1000.train.tsv`; with `validation="dev"` those of the development set too. Held-out
    queries may come in files of the same form, named `heldout`. Any file may be gzipped. A ranked run is read
    to twice as many passages per query as a list needs. `Path("hub")` is a folder if there is one of that
    name.
    """
    options = options or Options()
    folder = Path(path)
    try:
        if path == HUB or (folder == Path(HUB) and not folder.exists()):
            return _from_hub(options)
        return _from_folder(folder, options)
    except OSError as error:
        raise unreadable(folder, error) from None


def _from_hub(options: Options) -> Rankings:
    if options.tables is None:
        needed = f"{VOCABULARY} and {embeddings.FILE}"
        raise refused(
            HUB,
            f"has no {needed}",
            f"a folder with both, given as --tables FOLDER or Options(tables=FOLDER); {embeddings.SOURCE}",
        )
    return rankings_of(hub(options.validation), Path(options.tables), options)


def _from_folder(folder: Path, options: Options) -> Rankings:
    expected = "a folder with the official collection.tsv"
    if not folder.is_dir():
        raise refused(folder, "is not a folder" if folder.exists() else "no such folder", expected)
    if not is_official(folder):
        raise refused(folder, "has no collection.tsv", expected)
    collection = official(folder, options.validation)
    if options.validation == "heldout" and options.validation_queries is None and collection.validation:
        options = replace(options, validation_queries=len(collection.validation.relevant))
    return rankings_of(collection, Path(options.tables or folder), options)
