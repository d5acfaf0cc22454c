"""MS MARCO passage ranking: a query, one passage that answers it, and T - 1 that nearly do."""

from pathlib import Path

from headcount.data.msmarco import compact as msmarco_compact
from headcount.data.msmarco import embeddings
from headcount.data.msmarco.compact import compact
from headcount.data.msmarco.files import is_official, official
from headcount.data.msmarco.hub import hub
from headcount.data.msmarco.lists import VOCABULARY, rankings_of
from headcount.data.msmarco.rankings import Rankings
from headcount.data.msmarco.source import Options, refused, unreadable

HUB = "hub"


def load(path: Path | str, options: Options | None = None) -> Rankings:
    """Lists of candidates from what the folder holds, or from the hub where the path is "hub".

    `Path("hub")` is a folder where there is one of that name.

    - `msmarco_tokens.npz`: finished lists.
    - `collection.tsv`, `queries.train.tsv`, `qrels.train.tsv` and, if there is one, a run such as
      `top1000.train.tsv`: the official files; with `validation="dev"` those of the development set too.
      Any of them may be packed as .gz. A ranked run is read, and checked, to twice as many passages of a
      query as its list needs.
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
            f"gives no {needed}",
            "a folder that has both, as --tables FOLDER or Options(tables=FOLDER), or, without the hub, one "
            f"with {needed} beside the official files; {embeddings.SOURCE}",
        )
    return rankings_of(hub(), Path(options.tables), options)


def _from_folder(folder: Path, options: Options) -> Rankings:
    expected = f"a folder with {msmarco_compact.FILE} or with the official collection.tsv"
    if not folder.is_dir():
        raise refused(folder, "is no folder" if folder.exists() else "there is no such folder", expected)
    if (folder / msmarco_compact.FILE).is_file():
        return compact(folder / msmarco_compact.FILE, options)
    if is_official(folder):
        collection = official(folder, with_dev=options.validation == "dev")
        return rankings_of(collection, Path(options.tables or folder), options)
    raise refused(folder, "holds neither", expected)
