"""What the results say about the number of heads."""

from headcount.estimate.cells import Section as Section
from headcount.estimate.cells import cell_table as cell_table
from headcount.estimate.cells import sections as sections
from headcount.estimate.cells import selected_members as selected_members
from headcount.estimate.estimator import HeadCount as HeadCount
from headcount.estimate.transition import Transition as Transition
from headcount.estimate.transition import transitions as transitions
