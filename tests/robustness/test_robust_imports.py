from robust_support import Process


def test_the_engine_trains_without_the_parts_for_people(engine_alone: Process) -> None:
    """Neither pydantic nor anything of the report or the command line: see engine_alone.py."""
    code = engine_alone.wait()
    assert (code, engine_alone.out, engine_alone.err) == (0, "trained False True\n", "")
