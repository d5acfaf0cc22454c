"""How much work a call is, whatever the machine: the instructions that Python runs for it."""

import sys


def steps(call) -> int:
    """Instructions of the interpreter during `call()`, those of loops each time."""
    count = 0

    def follow(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
