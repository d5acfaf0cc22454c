"""Trials → packs → one compiled program per pack shape → a results frame."""

from headcount.engine.executor import Advanced as Advanced
from headcount.engine.executor import Event as Event
from headcount.engine.executor import Finished as Finished
from headcount.engine.executor import GivenUp as GivenUp
from headcount.engine.executor import Planned as Planned
from headcount.engine.executor import Problem as Problem
from headcount.engine.executor import Staffed as Staffed
from headcount.engine.executor import run as run
from headcount.engine.executor import sweep as sweep
from headcount.engine.machine import Machine as Machine
from headcount.engine.machine import this_machine as this_machine
from headcount.engine.pack import Pack as Pack
from headcount.engine.pack import plan as plan
from headcount.engine.spec import Grid as Grid
from headcount.engine.spec import TaskChoice as TaskChoice
from headcount.engine.spec import Training as Training
from headcount.engine.spec import Trial as Trial
from headcount.engine.store import Store as Store
from headcount.engine.store import results as results
from headcount.engine.train import Outcome as Outcome
from headcount.engine.train import PackTraining as PackTraining
from headcount.engine.train import train as train
