"""The example of the runtime: ended by Ctrl-C it is healthy, and with a stuck closure its report says where."""

from __future__ import annotations

import re
import signal

import pytest

from lifecycle import RuntimeConfig
from tests.examples.programs import finish, python, start

SCHEDULE = re.compile(r"^  (skip|coalesce|catch up) +(\d+) runs, +(\d+) ticks left out, (\d+) waiting$", re.MULTILINE)


def until_busy(*options: str) -> tuple[int, str, str]:
    """Run it until everything that it shows has happened, then press Ctrl-C."""
    process = start("-m", "examples.maintenance", *options)
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        counts = [int(number) for number in re.findall(r"\d+", line)] if "compactions" in line else [0]
        if len(counts) == 3 and counts[0] >= 6 and counts[1] >= 2 and counts[2] >= 10:
            break
    process.send_signal(signal.SIGINT)
    status, rest, errors = finish(process)
    return status, said + rest, errors


def test_interrupted_it_ends_healthy_and_all_that_was_accepted_is_durable() -> None:
    status, output, errors = until_busy()
    assert (status, errors) == (0, "")
    assert "shutdown of maintenance: healthy, completed in " in output
    assert "(reason: signal)" in output
    assert "nothing was still running" in output
    ledger = re.search(r"the ledger: (\d+) steps accepted, generation (\d+) durable", output)
    assert ledger is not None
    assert int(ledger[1]) == int(ledger[2]) > 100
    queue = re.search(r"the queue: (\d+) answered, (\d+) rejected, (\d+) controls got in", output)
    assert queue is not None
    assert all(int(count) > 1 for count in queue.groups())


def test_the_three_policies_differ_in_what_they_leave_out_and_what_waits() -> None:
    status, output, _ = until_busy()
    assert status == 0
    shown = {name: (int(runs), int(skips), int(waiting)) for name, runs, skips, waiting in SCHEDULE.findall(output)}
    assert set(shown) == {"skip", "coalesce", "catch up"}
    assert shown["skip"][2] == 0
    assert shown["coalesce"][2] == 1
    assert shown["catch up"][2] == 3
    assert shown["skip"][1] > shown["coalesce"][1] > shown["catch up"][1] > 0


def test_a_stuck_closure_is_in_the_report_with_the_place_where_it_stands() -> None:
    status, output, errors = until_busy("--stuck")
    assert status == RuntimeConfig().overrun_status
    assert "shutdown of maintenance: NOT HEALTHY, overrun in 3." in output
    assert "blocking calls that have not returned: 1" in output
    where = r"read in lane storage_io: timed out still running, [\d.]+ s\n +.*maintenance\.py:\d+ in Disk\.read$"
    assert re.search(where, output, re.MULTILINE)
    assert "shutdown of maintenance: NOT HEALTHY" in errors  # the log has it too, whatever becomes of the program


@pytest.mark.parametrize("option", ["--seconds=0.3"])
def test_it_may_end_by_itself(option: str) -> None:
    status, output, errors = python("-m", "examples.maintenance", option)
    assert (status, errors) == (0, "")
    assert "(reason: asked)" in output
