"""Skips: a test marked ``data`` needs the data sets; in CI nothing else may be skipped.

A test that is skipped because a package, a port or a file is missing looks like a passed one to whoever reads the
last line. With KANONFLOW_CI or CI set to true such a skip is a failure. Tests marked ``data`` are skipped when
KANONFLOW_DATA is not set, there too; when it is set, they must run.
"""

import os
from collections.abc import Generator, Mapping

import pytest

TRUE = ("1", "true", "yes")


def in_ci(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether skips must not pass unseen."""
    return any(environment.get(name, "").lower() in TRUE for name in ("KANONFLOW_CI", "CI"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs the data sets where there are none."""
    if os.environ.get("KANONFLOW_DATA"):
        return
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason="needs KANONFLOW_DATA"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure in CI."""
    report = yield
    allowed = item.get_closest_marker("data") is not None and not os.environ.get("KANONFLOW_DATA")
    if report.skipped and not hasattr(report, "wasxfail") and in_ci() and not allowed:
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself as a whole."""
    report = yield
    if report.skipped and in_ci():
        report.outcome = "failed"
        report.longrepr = f"module skipped, which CI does not allow: {_reason(report.longrepr)}"
    return report


def _reason(told: object) -> str:
    return str(told[2]) if isinstance(told, tuple) else str(told)
