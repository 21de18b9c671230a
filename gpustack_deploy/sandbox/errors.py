"""The errors of the sandbox: each message is one sentence that stands alone."""


class SandboxError(Exception):
    """Something the sandbox needs is missing or failed: what was found and needed, what to do."""


class MissingTool(SandboxError):
    """A program that has to be on the machine is absent or too old."""


class NotEnoughSpace(SandboxError):
    """The disk has less free space than the build needs."""


class BuildFailed(SandboxError):
    """One part did not build; its log file is named."""


class InvalidShape(SandboxError):
    """The file that declares nodes and queues is not valid; the path inside it is named."""


class StartFailed(SandboxError):
    """A component did not become ready; its log file is named."""


class NotRunning(SandboxError):
    """There is no running sandbox of that name."""
