"""How many attention heads does this task need? An answer, with evidence."""

from headcount.engine import Grid as Grid
from headcount.engine import Outcome as Outcome
from headcount.engine import TaskChoice as TaskChoice
from headcount.engine import Training as Training
from headcount.engine import Trial as Trial
from headcount.engine import results as results
from headcount.engine import sweep as sweep
from headcount.engine import train as train
from headcount.errors import HeadcountError as HeadcountError
from headcount.errors import InvalidInput as InvalidInput
from headcount.estimate import HeadCount as HeadCount
from headcount.estimate import Transition as Transition
from headcount.estimate import transitions as transitions
from headcount.models import Architecture as Architecture
from headcount.models import Transformer as Transformer
from headcount.tasks import RetrievalTask as RetrievalTask
from headcount.tasks import check as check
from headcount.theory import bounds as bounds
from headcount.theory import collide as collide
from headcount.theory import dense as dense
from headcount.theory import memorise as memorise
from headcount.theory import specialise as specialise
from headcount.version import __version__ as __version__
