"""Marks by which the processes of a gate's agents are found."""

import os

from evalgate.agents.workers.orphans import create_mark, get_mark_prefix


def test_marks_of_a_gate_begin_alike_and_differ() -> None:
    first, second = create_mark(), create_mark()

    assert first != second
    assert {mark[: len(get_mark_prefix())] for mark in (first, second)} == {get_mark_prefix()}


def test_a_fork_marks_its_agents_otherwise() -> None:
    """Else the agents of one gate would end with those of another one."""
    before = create_mark()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, create_mark().encode())
        os._exit(0)
    os.waitpid(child, 0)
    in_fork = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)

    assert len(in_fork) == len(before)
    assert not in_fork.startswith(get_mark_prefix())
