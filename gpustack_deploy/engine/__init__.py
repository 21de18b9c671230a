"""The only layer that waits or talks to a cluster."""
