from typing import Any

import pytest

from gpustack_deploy.model.listener import Listener, is_external_dp, listener_of, port_number
from tests.declarations import role

pytestmark = pytest.mark.check


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({}, Listener(8000, 8000, "HTTP", is_probeable=True)),
        ({"ports": [{"port": 9000}]}, Listener(9000, 9000, "HTTP", is_probeable=True)),
        ({"extraArgs": ["--port", "9000"]}, Listener(8000, 9000, "HTTP", is_probeable=True)),
        (
            {"command": ["x", "--port", "$(PORT)"]},
            Listener(8000, 8000, "HTTP", is_probeable=True),
        ),
        ({"command": ["x", "--port", "9000"]}, Listener(8000, 9000, "HTTP", is_probeable=True)),
        (
            {"ports": [{"port": 9000}], "extraArgs": ["--port=9000"]},
            Listener(9000, 9000, "HTTP", is_probeable=True),
        ),
        (
            {"extraArgs": ["--host", "127.0.0.1"]},
            Listener(8000, 8000, "HTTP", is_probeable=False),
        ),
        ({"extraArgs": ["--host", "::"]}, Listener(8000, 8000, "HTTP", is_probeable=True)),
        (
            {"extraArgs": ["--ssl-certfile", "/c", "--ssl-keyfile", "/k"]},
            Listener(8000, 8000, "HTTPS", is_probeable=True),
        ),
        (
            {"extraArgs": ["--ssl-keyfile", "/k", "--ssl-cert-reqs", "2"]},
            Listener(8000, 8000, "HTTPS", is_probeable=False),
        ),
        (
            {"extraArgs": ["--ssl-keyfile", "/k", "--ssl-cert-reqs", "1"]},
            Listener(8000, 8000, "HTTPS", is_probeable=True),
        ),
        (
            {"extraArgs": ["--ssl-cert-reqs", "2"]},
            Listener(8000, 8000, "HTTP", is_probeable=True),
        ),
        (
            {"ports": [{"port": 9000, "protocol": "UDP"}]},
            Listener(9000, 9000, "HTTP", is_probeable=False),
        ),
    ],
)
def test_the_listener_follows_the_declared_command_line(
    fields: dict[str, Any], want: Listener
) -> None:
    assert want == listener_of(role(**fields))


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"size": 2}, False),
        ({"size": 2, "extraArgs": ["--data-parallel-external-lb"]}, True),
        ({"size": 2, "extraArgs": ["-dpn", "$(GPUSTACK_MEMBER_INDEX)"]}, True),
        ({"size": 2, "extraArgs": ["--data-parallel-start-rank", "1"]}, False),
        ({"size": 1, "extraArgs": ["--data-parallel-rank", "0"]}, False),
        ({"size": 2, "command": ["vllm", "serve", "m", "--data-parallel-rank", "0"]}, True),
        (
            {
                "size": 2,
                "engine": {"name": "SGLang"},
                "command": ["x", "--data-parallel-rank", "0"],
            },
            False,
        ),
    ],
)
def test_external_data_parallelism_is_declared_on_the_command_line(
    fields: dict[str, Any], want: bool
) -> None:
    assert want == is_external_dp(role(**fields))


@pytest.mark.parametrize(
    ("text", "want"),
    [("1", 1), ("65535", 65535), ("0", None), ("65536", None), ("x", None), (None, None)],
)
def test_a_port_number_is_1_to_65535(text: str | None, want: int | None) -> None:
    assert want == port_number(text)
