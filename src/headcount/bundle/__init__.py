"""All wheels that a machine without network needs, in one folder, with the one command that installs them."""

from headcount.bundle.folder import Bundle as Bundle
from headcount.bundle.folder import make as make
from headcount.bundle.source import find_source as find_source
from headcount.bundle.target import Target as Target
