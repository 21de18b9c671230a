"""A cluster in memory: API server, garbage collector, scheduler, kubelet and Kueue, in steps."""

from tests.fakes.clock import FakeClock, run_virtual
from tests.fakes.kubelet import Timing
from tests.fakes.memory_cluster import MemoryCluster
from tests.fakes.steps import Action

__all__ = ["Action", "FakeClock", "MemoryCluster", "Timing", "run_virtual"]
