"""Kills a sweep ten times at random moments: `python tests/robustness/kill_ten_times.py [KILLS]`.

Prints a line for each kill and then whether the results are those of a sweep that nobody disturbed.
"""

import sys
import tempfile
from pathlib import Path

from robust_support import Disturbed, heavy, numbers, same, write


def main(kills: int) -> int:
    with tempfile.TemporaryDirectory(prefix="headcount-kills-") as name:
        folder = Path(name)
        spec = write(folder / "heavy.toml", heavy(seeds=6 * kills + 4))
        killed = Disturbed(spec, folder / "killed", folder / "cache")
        while len(killed.kills) < kills:
            kill = killed.kill_once(within=3.0)
            if kill is None:
                print(f"done after {len(killed.kills)} kills: the specification is too light for {kills}")
                return 1
            print(f"{len(killed.kills):2}: {kill}", flush=True)
        killed.finish()
        undisturbed = Disturbed(spec, folder / "undisturbed", folder / "cache")
        undisturbed.finish()
        frame = numbers(killed.out)
        same(frame, numbers(undisturbed.out))
    print(f"{len(frame)} trials after {kills} kills: exactly the numbers of an undisturbed run; no finished")
    print("trial was trained again, and no pack lost more than the chunk it was in.")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
