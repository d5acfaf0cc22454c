"""The theory as software: bounds, constructions with explicit weights, and collisions."""

from headcount.theory.bounds import Bounds as Bounds
from headcount.theory.bounds import bounds as bounds
from headcount.theory.building.construction import Construction as Construction
from headcount.theory.collide import Collisions as Collisions
from headcount.theory.collide import collide as collide
from headcount.theory.density import Density as Density
from headcount.theory.density import dense as dense
from headcount.theory.memorise import memorise as memorise
from headcount.theory.specialise import specialise as specialise
