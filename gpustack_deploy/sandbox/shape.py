"""The shape of a sandbox: its pools of nodes and their quotas, read from a small YAML file."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from gpustack_deploy.sandbox.errors import InvalidShape

DEFAULT_SHAPE = Path(__file__).parent / "default-shape.yaml"
SCHEMA_FILE = Path(__file__).parent / "shape.schema.json"
UNMETERED = ("device.gpustack.ai/", "vpc.amazonaws.com/")


@dataclass(frozen=True, slots=True)
class Pool:
    """Equal nodes with one flavor, cluster queue and local queue, all of the pool's name."""

    name: str
    nodes: int
    cpu: str = "64"
    memory: str = "512Gi"
    ephemeral_storage: str = "2Ti"
    pods: int = 1000
    devices: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    quota: Mapping[str, str] = field(default_factory=dict)
    cohort: str = ""

    def capacity(self) -> dict[str, str]:
        """What one node has, by resource name."""
        return {
            "cpu": self.cpu,
            "memory": self.memory,
            "ephemeral-storage": self.ephemeral_storage,
            **self.devices,
        }

    def quotas(self, unmetered: Sequence[str]) -> dict[str, str]:
        """Nominal quota by resource: the declared one, else the sum of the pool's nodes."""
        summed = {
            resource: multiplied(quantity, self.nodes)
            for resource, quantity in self.capacity().items()
            if not resource.startswith(tuple(unmetered))
        }
        return summed | dict(self.quota)


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything that a sandbox starts with."""

    pools: tuple[Pool, ...]
    unmetered: tuple[str, ...] = UNMETERED
    namespaces: tuple[str, ...] = ("default",)


def load_shape(file: str | Path | None = None) -> Shape:
    """The shape in the file, or the default one; an invalid file is one sentence with the path."""
    source = Path(file) if file is not None else DEFAULT_SHAPE
    try:
        declared = yaml.safe_load(source.read_text())
    except OSError as error:
        raise InvalidShape(f"{source}: {error.strerror}; name a readable YAML file.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise InvalidShape(f"{source} is not YAML: {problem}.") from error
    return shape_from(declared, source=str(source))


def shape_from(declared: object, *, source: str = "the shape") -> Shape:
    """The shape that a decoded file declares; `InvalidShape` names the first wrong place."""
    if (error := best_match(_validator().iter_errors(declared))) is not None:
        raise InvalidShape(f"{source}: {error.json_path}: {error.message}")
    assert isinstance(declared, dict)  # noqa: S101 - the schema has said so
    pools = tuple(_pool(entry) for entry in declared["pools"])
    names = [pool.name for pool in pools]
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise InvalidShape(f"{source}: $.pools: two pools are named '{double}'; name them apart.")
    return Shape(
        pools,
        tuple(declared.get("unmetered", UNMETERED)),
        tuple(declared.get("namespaces", ("default",))),
    )


def multiplied(quantity: str, times: int) -> str:
    """A whole quantity times a count, in the same unit."""
    match = re.fullmatch(r"(\d+)(\D*)", quantity)
    if match is None:
        raise InvalidShape(f"'{quantity}' is not a whole quantity such as 8 or 512Gi.")
    return f"{int(match[1]) * times}{match[2]}"


def _pool(entry: Mapping[str, Any]) -> Pool:
    default = Pool(entry["name"], entry["nodes"])
    return Pool(
        name=entry["name"],
        nodes=entry["nodes"],
        cpu=str(entry.get("cpu", default.cpu)),
        memory=str(entry.get("memory", default.memory)),
        ephemeral_storage=str(entry.get("ephemeralStorage", default.ephemeral_storage)),
        pods=entry.get("pods", default.pods),
        devices={key: str(value) for key, value in entry.get("devices", {}).items()},
        labels=entry.get("labels", {}),
        quota={key: str(value) for key, value in entry.get("quota", {}).items()},
        cohort=entry.get("cohort", ""),
    )


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(SCHEMA_FILE.read_text()))
