"""Random state machines of Hypothesis, repeatable by the seed that each run prints."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_state_machine(
    machine: type[RuleBasedStateMachine], *, seed: int, examples: int, steps: int, phases: Sequence[Phase] = tuple(Phase)
) -> None:
    """Run examples of a machine, of at most this many rules each. A failure prints its steps, and a blob that repeats it."""
    print(f"\nseed: RUNLAKE_SEED={seed} RUNLAKE_EXAMPLES={examples} RUNLAKE_STEPS={steps}")
    run_state_machine_as_test(
        hypothesis.seed(seed)(machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            print_blob=True,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )
