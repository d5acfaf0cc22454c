"""What an estimate leaves in its folder: the page and estimate.json, beside the members that it rests on."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from headcount.data.arrays import DataSet
from headcount.errors import InvalidInput
from headcount.estimate.evidence import attention, salience_of
from headcount.estimate.salience import SALIENT
from headcount.estimate.study import Study
from headcount.estimate.verdict import Estimate
from headcount.results.files import write_whole
from headcount.validation import shown

ESTIMATE = "estimate.json"


@dataclass(frozen=True, eq=False)
class Answer:
    """An estimate with all that is written of it; the folder of its members is not needed any more.

    - `data`: which data it is of, and how that was read.
    - `page`: renders the page; None where the time was up before there was a curve to show.
    - `frame`: a row for each member.
    """

    found: Estimate
    data: dict[str, Any]
    page: Callable[[], str] | None
    frame: pd.DataFrame

    @classmethod
    def of(cls, study: Study, found: Estimate, *, command: str) -> "Answer":
        """The answer of a trained study; `command` repeats it."""
        frame = study.frame()
        page = _page(study, found, frame, command=command) if study.has_quick_sweep else None
        return cls(found, about(study.data), page, frame)

    @property
    def text(self) -> str:
        """The content of estimate.json."""
        return json.dumps({**self.found.to_json(), "data": self.data}, indent=2, allow_nan=False)

    def write(self, study: Study) -> None:
        """The page and estimate.json, into the folder of the study."""
        if self.page is not None:
            self.write_page(study.store.page)
        write_whole(study.store.folder / ESTIMATE, lambda file: file.write(self.text.encode()))

    def write_page(self, path: Path) -> None:
        """The page alone, to any file."""
        if self.page is None:
            raise InvalidInput(f"report: there is nothing to show yet: {self.found.sentence}")
        page = self.page()
        write_whole(path, lambda file: file.write(page.encode()))


def check_same_data(name: str, study: Study) -> None:
    """One folder is for one data set: do not overwrite the estimate of another."""
    try:
        before = json.loads((study.store.folder / ESTIMATE).read_bytes())["data"]
        other, fingerprint = before["name"], before["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):  # none, or one that cannot be read
        return
    if fingerprint != study.data.fingerprint:
        raise InvalidInput(
            f"{name}: {study.store.folder} holds the estimate of other data ({shown(other)}); "
            "use another folder"
        )


def about(data: DataSet) -> dict[str, Any]:
    """Which data it is, and how it was read."""
    read = {"read_as": data.summary, "doubts": list(data.doubts)}
    return {"name": data.name, "fingerprint": data.fingerprint, **read}


def _page(study: Study, found: Estimate, frame: pd.DataFrame, *, command: str) -> Callable[[], str]:
    from headcount.report.estimation import Pictures, page_of  # charts: only once there is one to draw

    member, weights = attention(study, found.recommended_heads)
    pictures = Pictures(salience_of(study).counts(SALIENT), weights)
    return page_of(found, study.early_estimate(), study.data, member, pictures, frame, command=command)
