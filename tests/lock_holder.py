"""Holds the lock of a results folder until it is killed: `python tests/lock_holder.py DIR`."""

import sys
import time
from pathlib import Path

from headcount.results.lock import writing

if __name__ == "__main__":
    with writing(Path(sys.argv[1])):
        print("held", flush=True)
        time.sleep(60)
