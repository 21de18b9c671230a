"""Importing the package stays cheap: the client and the models come on first use."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.check

MEASURE = """
import json, sys, time
import pulumi
began = time.perf_counter()
import pulumi_gpustack
took = time.perf_counter() - began
print(json.dumps([took, sorted({"kubernetes", "pydantic", "aiohttp"} & set(sys.modules))]))
"""


def test_the_import_takes_less_than_three_tenths_of_a_second() -> None:
    measured = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", MEASURE],
                check=True,
                capture_output=True,
                text=True,
                env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
            ).stdout
        )
        for _ in range(3)
    ]
    assert [] == measured[0][1]
    assert min(took for took, _ in measured) < 0.3
