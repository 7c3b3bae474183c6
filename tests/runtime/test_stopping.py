"""`stopping`: the ranks answer alike at whatever moment the signal comes."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from distify import runtime
from tests.pool import Pool


def asked_after_the_ranks_agreed() -> list[bool]:
    runtime.init()
    module: Any = sys.modules["distify.runtime.stopping"]  # the package's attribute is the function
    agree = module.any_rank

    def late(*values: Any, **options: Any) -> bool:
        answer = agree(*values, **options)
        if runtime.rank() == 1 and len(answers) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return answer

    answers: list[bool] = []
    module.any_rank = late
    try:
        for _ in range(4):
            answers.append(runtime.stopping())
    finally:
        module.any_rank = agree
    return answers


def test_a_signal_after_the_agreement_is_the_next_calls(pool2: Pool) -> None:
    assert pool2.run(asked_after_the_ranks_agreed) == [[False, False, True, True]] * 2


def asked_alone() -> list[bool]:
    runtime.init()
    answers = [runtime.stopping()]
    os.kill(os.getpid(), signal.SIGTERM)
    return [*answers, runtime.stopping(), runtime.stopping()]


def test_one_process_answers_from_the_signal_on(pool1: Pool) -> None:
    assert pool1.run(asked_alone) == [[False, True, True]]
