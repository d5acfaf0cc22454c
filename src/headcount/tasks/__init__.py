"""What is to be approximated: retrieval targets, a library of them, and the assumptions they meet."""

from headcount.tasks.arrays import DataSet as DataSet
from headcount.tasks.assumptions import check as check
from headcount.tasks.findings import Assumptions as Assumptions
from headcount.tasks.findings import Finding as Finding
from headcount.tasks.library import bowls as bowls
from headcount.tasks.library import bowls_product as bowls_product
from headcount.tasks.library import bowls_ratio as bowls_ratio
from headcount.tasks.library import bowls_several as bowls_several
from headcount.tasks.library import bowls_soft_maximum as bowls_soft_maximum
from headcount.tasks.library import extremes as extremes
from headcount.tasks.library import max_sum as max_sum
from headcount.tasks.positions import Positions as Positions
from headcount.tasks.registry import TASKS as TASKS
from headcount.tasks.registry import build as build
from headcount.tasks.registry import comes_along as comes_along
from headcount.tasks.registry import register as register
from headcount.tasks.retrieval import RetrievalTask as RetrievalTask
from headcount.tasks.retrieval import Samples as Samples
