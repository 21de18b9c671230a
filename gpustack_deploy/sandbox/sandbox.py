"""A running sandbox: started, looked at, changed and ended from Python."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from gpustack_deploy.sandbox import dns, environment, folders, launch, objects
from gpustack_deploy.sandbox.api import Json, SandboxApi
from gpustack_deploy.sandbox.build import Say, build, say_on_stderr
from gpustack_deploy.sandbox.cache import DEFAULT_NAME, sandbox_dir
from gpustack_deploy.sandbox.components import components_of
from gpustack_deploy.sandbox.errors import NotRunning, SandboxError
from gpustack_deploy.sandbox.layout import PORTS, Layout
from gpustack_deploy.sandbox.ports import free_ports, is_free
from gpustack_deploy.sandbox.processes import is_alive, stop, this_process
from gpustack_deploy.sandbox.shape import Pool, Shape, load_shape
from gpustack_deploy.sandbox.state import State, read_state, write_state
from gpustack_deploy.sandbox.versions import versions_in_use
from gpustack_deploy.sandbox.waiting import wait_until


class Sandbox:
    """A control plane on loopback: etcd, the Kubernetes programs, Kueue, and KWOK for kubelets.

    Used as a context manager it is ended on leaving the block. Pods never run a container.
    """

    def __init__(self, folder: Path, state: State) -> None:
        self.folder = folder
        self.name = state.name
        self._layout = Layout(folder, state.ports)

    @classmethod
    def up(
        cls,
        name: str = DEFAULT_NAME,
        *,
        nodes: str | Path | Shape | None = None,
        audit_log: bool = False,
        options: Sequence[str] = (),
        owned: bool = False,
        say: Say = say_on_stderr,
    ) -> Self:
        """A running sandbox of that name; one that runs already is taken as it is.

        Whatever is missing is built first. An owned sandbox counts as left over once this process
        has ended, and the next `up` of any name ends it.
        """
        shape = nodes if isinstance(nodes, Shape) else load_shape(nodes)
        build(options, say=say)
        cls.end_orphans(say=say)
        folder = sandbox_dir(name)
        with folders.locked(folder):
            if (running := cls.find(name)) is not None:
                say(f"Sandbox '{name}' is running already; it is used as it is.")
                running.start_stopped_components(say=say)
                return running
            folders.remove(folder)
            state = State(
                name=name,
                ports=dict(
                    zip(PORTS, free_ports(len(PORTS), taken=folders.taken_ports()), strict=True)
                ),
                versions=versions_in_use(),
                owner=this_process() if owned else None,
                audit_log=audit_log,
                options=tuple(options),
            )
            try:
                state = launch.start_all(Layout(folder, state.ports), state, shape, say)
            except BaseException:
                folders.remove(folder)
                raise
        return cls(folder, state)

    @classmethod
    def find(cls, name: str = DEFAULT_NAME) -> Self | None:
        """The sandbox of that name if it started completely and something of it still runs."""
        folder = sandbox_dir(name)
        state = read_state(folder)
        if state is None or not state.ready:
            return None
        apiserver = state.processes.get("kube-apiserver")
        if apiserver is None or not is_alive(apiserver):
            return None
        return cls(folder, state)

    @classmethod
    def end(cls, name: str = DEFAULT_NAME) -> bool:
        """Ends the sandbox of that name, also one that is broken or half started; False if none."""
        folder = sandbox_dir(name)
        if not folder.exists():
            return False
        with folders.locked(folder):
            folders.remove(folder)
        return True

    @classmethod
    def end_orphans(cls, *, say: Say = say_on_stderr) -> None:
        """Ends every owned sandbox whose owner is gone."""
        for folder in folders.orphans():
            say(f"Ending sandbox '{folder.name}', left over by a process that is gone.")
            with folders.locked(folder):
                folders.remove(folder)

    @classmethod
    def require(cls, name: str = DEFAULT_NAME) -> Self:
        """The running sandbox of that name, or one sentence that there is none."""
        if (running := cls.find(name)) is None:
            raise NotRunning(
                f"No sandbox '{name}' is running: start it with `gpustack-deploy sandbox up`."
            )
        return running

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; it names no file outside itself."""
        return self._layout.kubeconfig

    @property
    def api(self) -> SandboxApi:
        """A client with the administrator's rights."""
        return SandboxApi(self.kubeconfig)

    @property
    def state(self) -> State:
        """What is recorded: ports, processes, versions."""
        state = read_state(self.folder)
        if state is None:
            raise NotRunning(f"Sandbox '{self.name}' was ended; start it again.")
        return state

    def env(self) -> dict[str, str]:
        """A whole environment for programs that work against this sandbox, free of any login."""
        return environment.environment(self._layout)

    def shell_lines(self) -> list[str]:
        """What `gpustack-deploy sandbox env` prints for a shell to evaluate."""
        return environment.shell_lines(self._layout)

    def status(self) -> dict[str, bool]:
        """Whether each component runs."""
        state = self.state
        processes = state.processes
        return {
            name: name in processes and is_alive(processes[name])
            for name in components_of(state.options)
        }

    def log(self, component: str) -> Path:
        """The log file of a component."""
        return self._layout.logs / f"{component}.log"

    def audit_position(self) -> int:
        """How far the audit log has come; what is asked later stands behind it."""
        if not self.state.audit_log:
            raise SandboxError("This sandbox keeps no audit log: start it with audit_log=True.")
        return self._layout.audit_log.stat().st_size

    def audit_events(self, *, since: int = 0) -> list[Json]:
        """Every request answered since a position, in order; lease renewals are not recorded."""
        until = self.audit_position()
        with self._layout.audit_log.open("rb") as log:
            log.seek(since)
            whole = log.read(until - since).rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def add_namespace(self, name: str, *, queues: bool = True) -> None:
        """A namespace that Pods can be created in, with a local queue for every cluster queue."""
        launch.add_namespace(self.api, name, queues=queues)

    def add_lost_node(self, name: str, pool: Pool) -> None:
        """A Ready node of the pool that no kubelet and no KWOK manages.

        The scheduler binds Pods to it, nothing ever runs there, and it turns NotReady by itself.
        """
        api = self.api
        api.create("/api/v1/nodes", objects.node_object(pool, name, simulated=False))
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        api.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready]}})

    def forget_node(self, name: str) -> None:
        """From now on nothing stands in for this node's kubelet: it and its Pods are lost."""
        self._simulate(name, value=None)

    def recall_node(self, name: str) -> None:
        """A forgotten or lost node has its kubelet again."""
        self._simulate(name, value=objects.SIMULATED)

    def stop_component(self, component: str) -> None:
        """Ends one component; the others go on without it."""
        state = self.state
        if (process := state.processes.get(component)) is not None:
            stop([process])
            self._wait_for_ports(component)
            write_state(self.folder, state.with_process(component, None))

    def start_component(self, component: str) -> None:
        """Starts a stopped component again and returns once it is ready."""
        state = self.state
        process = state.processes.get(component)
        if process is None or not is_alive(process):
            launch.start(component, self._layout)

    def start_stopped_components(self, *, say: Say = say_on_stderr) -> None:
        """Starts every component that does not run, whoever ended it."""
        for component, runs in self.status().items():
            if not runs:
                say(f"{component} had ended; it is started again.")
                self.start_component(component)

    def resolve(self, name: str) -> list[str]:
        """The addresses of a Service's or member's full name; needs the option `dns`."""
        if "dns" not in self.state.options:
            raise SandboxError("This sandbox has no name server: start it with `--with dns`.")
        return dns.resolve(name, self._layout.ports["coredns"])

    def down(self) -> None:
        """Ends every process of the sandbox and removes its folder; repeating it is no error."""
        with folders.locked(self.folder):
            folders.remove(self.folder)

    def _simulate(self, name: str, *, value: str | None) -> None:
        labels = {objects.LABEL_SIMULATED: value}
        self.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})

    def _wait_for_ports(self, component: str) -> None:
        ports = [port for use, port in self._layout.ports.items() if use.startswith(component)]
        wait_until(lambda: all(map(is_free, ports)), what=f"the ports of {component} to be free")
