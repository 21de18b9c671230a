"""GPU model serving on Kubernetes and Kueue: the model, the planner and the engine.

Knows nothing of Pulumi.
"""

__version__ = "0.1.0"
