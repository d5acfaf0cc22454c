"""Compiled programs: which are kept, and when a second attempt to compile is made."""

import threading

import jax
import pytest

from headcount.engine.lanes import MAX_PROGRAMS, QUICK_TO_COMPILE, Programs, _programs, compiled_with


def test_only_the_programs_used_last_are_kept():
    programs, made = Programs(size=2), []

    def get(key):
        return programs.get(key, lambda: made.append(key) or key)

    for key in ("one", "two", "one", "three", "one", "two"):
        assert get(key) == key
        assert len(programs) <= 2
    assert made == ["one", "two", "three", "two"], "the least recently used one went"
    assert _programs.size == MAX_PROGRAMS


def test_a_program_is_compiled_once_for_all_threads_and_again_after_a_failure():
    programs, made, both = Programs(size=1), [], threading.Barrier(2)

    def work():
        both.wait()
        programs.get("key", lambda: made.append(1) or "program")

    with pytest.raises(MemoryError):
        programs.get("key", lambda: (_ for _ in ()).throw(MemoryError).__next__())
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


class Lowered:
    """A program whose compiler refuses options with a message."""

    def __init__(self, message):
        self.message, self.attempts = message, []

    def compile(self, compiler_options=None):
        self.attempts.append(compiler_options)
        if compiler_options is not None:
            raise jax.errors.JaxRuntimeError(self.message)
        return "program"


def test_only_an_unknown_option_leads_to_a_second_attempt():
    with pytest.raises(jax.errors.JaxRuntimeError) as raised:  # as this version of the compiler says it
        jax.jit(lambda x: x).lower(1.0).compile(compiler_options={"xla_no_such_thing": True})
    old, full = Lowered(str(raised.value)), Lowered("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes")
    assert compiled_with(old, QUICK_TO_COMPILE) == "program"
    assert old.attempts == [QUICK_TO_COMPILE, None]
    with pytest.raises(jax.errors.JaxRuntimeError, match="Out of memory"):
        compiled_with(full, QUICK_TO_COMPILE)
    assert full.attempts == [QUICK_TO_COMPILE]
