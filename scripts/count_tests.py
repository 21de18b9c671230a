"""Print `N passed, N failed, N skipped` over the JUnit reports of a folder, alone on a line."""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET


def count(folder: Path) -> tuple[int, int, int]:
    """Passed, failed (errors included) and skipped tests of every report."""
    passed = failed = skipped = 0
    for report in folder.glob("*.xml"):
        counts = count_report(ET.parse(report).getroot())  # noqa: S314 - our own file
        passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
    return passed, failed, skipped


def count_report(report: "ET.Element[str]") -> tuple[int, int, int]:
    """Passed, failed (errors included) and skipped tests of one report."""
    passed = failed = skipped = 0
    for suite in report.iter("testsuite"):
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        idle = int(suite.get("skipped", 0))
        failed += bad
        skipped += idle
        passed += int(suite.get("tests", 0)) - bad - idle
    return passed, failed, skipped


if __name__ == "__main__":
    print("{} passed, {} failed, {} skipped".format(*count(Path(sys.argv[1]))))
