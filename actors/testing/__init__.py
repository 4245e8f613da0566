"""The test kit: systems on a virtual clock that are checked at their end, probes, faults by seed, repeatable runs.

With pytest and pytest-trio there are fixtures too: `actor_system`, `actor_system_both` and `inline_dispatch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "CutReport",
    "CutRule",
    "CutState",
    "CutStates",
    "Deadlocked",
    "FailingFiles",
    "Fault",
    "FaultPlan",
    "FileCall",
    "FileOperation",
    "InjectedCrash",
    "PowerCut",
    "PowerCutFailed",
    "Probe",
    "UncleanSystem",
    "Unexpected",
    "eventually",
    "open_probe",
    "open_test_system",
    "run_virtual",
    "seeded_scheduler",
    "simulated",
]

if TYPE_CHECKING:
    from ._errors import Deadlocked, InjectedCrash, PowerCutFailed, UncleanSystem, Unexpected
    from ._eventually import eventually
    from ._failing_files import FailingFiles, FileCall, FileOperation
    from ._faults import Fault, FaultPlan
    from ._open import open_test_system
    from ._power_cut import CutReport, CutRule, PowerCut
    from ._power_cut_states import CutState, CutStates
    from ._probe import Probe, open_probe
    from ._scheduler import run_virtual, seeded_scheduler
    from ._simulated import simulated
else:
    from lifecycle._lazy import lazily

    # The pytest plugin is in this package, and pytest loads it for all who have Tenure installed: most never use it.
    _PLACES = {
        "_errors": "Deadlocked InjectedCrash PowerCutFailed UncleanSystem Unexpected",
        "_eventually": "eventually",
        "_failing_files": "FailingFiles FileCall FileOperation",
        "_faults": "Fault FaultPlan",
        "_open": "open_test_system",
        "_power_cut": "CutReport CutRule PowerCut",
        "_power_cut_states": "CutState CutStates",
        "_probe": "Probe open_probe",
        "_scheduler": "run_virtual seeded_scheduler",
        "_simulated": "simulated",
    }

    __getattr__, __dir__ = lazily(globals(), _PLACES)
