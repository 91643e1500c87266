"""The file systems that tests use keep the contract of the real one: what is shown on them holds on a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.io.direct_io import DirectFs
from sparkhaven.store.io.fs import Fs
from tests.contracts.fs import FsContract
from tests.crash.disk.call_sites import CallSiteFs
from tests.support.disks.model_fs import CrashingFs, FaultFs, KillingFs, QuickFs
from tests.support.disks.power_cut_fs import PowerCutFs


class TestFs(FsContract):
    @pytest.fixture
    def fs(self) -> Fs:
        return Fs()


class TestDirectFs(FsContract):
    @pytest.fixture
    def fs(self) -> Fs:
        return DirectFs(least=1)


class TestCrashingFs(FsContract):
    @pytest.fixture
    def fs(self) -> Fs:
        return CrashingFs(crash_at="no such step", crash_after=10_000)


class TestFaultFs(FsContract):
    @pytest.fixture(params=["write", "rename", "sync"])
    def fs(self, request: pytest.FixtureRequest) -> Fs:
        return FaultFs(request.param, name="no such name", half=True)


class TestPowerCutFs(FsContract):
    @pytest.fixture
    def fs(self, root: Path) -> Fs:
        return PowerCutFs(root)


class TestCallSiteFs(FsContract):
    @pytest.fixture
    def fs(self, root: Path) -> Fs:
        return CallSiteFs(root)


class TestQuickFs(FsContract):
    @pytest.fixture
    def fs(self) -> Fs:
        return QuickFs()


class TestKillingFs(FsContract):
    @pytest.fixture
    def fs(self) -> Fs:
        return KillingFs()
