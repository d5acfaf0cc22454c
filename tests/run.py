"""All tests: those that start a cluster, which mostly wait, beside all others on two cores."""

import subprocess
import sys

CLUSTER = "tests/cluster"
COMMANDS = (("-r", "s", CLUSTER), ("-n", "2", "--dist", "worksteal", "-r", "s", f"--ignore={CLUSTER}"))

if __name__ == "__main__":
    begun = [
        subprocess.Popen([sys.executable, "-m", "pytest", *command, *sys.argv[1:]]) for command in COMMANDS
    ]
    sys.exit(max(abs(process.wait()) for process in begun))
