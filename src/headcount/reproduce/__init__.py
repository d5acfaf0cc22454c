"""The paper's evidence, run again: one short file per table, figure or question."""

from headcount.reproduce.catalogue import ITEMS as ITEMS
from headcount.reproduce.catalogue import REAL_ITEMS as REAL_ITEMS
from headcount.reproduce.claims import Verdict as Verdict
from headcount.reproduce.item import Item as Item
from headcount.reproduce.item import Panel as Panel
from headcount.reproduce.recipe import FULL as FULL
from headcount.reproduce.recipe import QUICK as QUICK
from headcount.reproduce.recipe import Recipe as Recipe
