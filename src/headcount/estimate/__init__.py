"""What the results say about the number of heads."""

from headcount.estimate.transition import Transition as Transition
from headcount.estimate.transition import best_members as best_members
from headcount.estimate.transition import transitions as transitions
