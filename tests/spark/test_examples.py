"""The tests in ``examples/``, as users copy them, with the session of this suite."""

from __future__ import annotations

import pytest

from examples.test_trades import test_a_job_that_writes, test_turnover

pytestmark = pytest.mark.spark
__all__ = ["test_a_job_that_writes", "test_turnover"]
