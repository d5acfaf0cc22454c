"""The model class: what it looks like, what it computes, and how members of it share arrays."""

from headcount.models.architecture import Architecture as Architecture
from headcount.models.padding import pad as pad
from headcount.models.padding import unpad as unpad
from headcount.models.transformer import Padding as Padding
from headcount.models.transformer import Transformer as Transformer
