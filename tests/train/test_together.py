"""How the processes of a job meet."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

import pytest

# As the console script does before anything else.
MEET = (
    "import signal, sys\n"
    "from xsa.store.errors import UserError\n"
    "from xsa.train.together import make_together\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
    "try:\n"
    "    make_together('pretrain', None)\n"
    "except UserError as error:\n"
    "    sys.exit(f'said: {error}')\n"
)


@pytest.fixture
def first():
    """Starts the first of two processes alone, which are to meet at a port."""
    started = []

    def start(port: int) -> subprocess.Popen:
        told = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        environment = dict(os.environ) | told
        started.append(
            subprocess.Popen([sys.executable, "-c", MEET], env=environment, stderr=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_process_that_waits_for_others_ends_when_it_is_told(first):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = first(port)
    while process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
    process.terminate()
    assert process.wait(timeout=60) == -signal.SIGTERM, process.stderr.read()


def test_a_port_that_another_program_uses_is_a_sentence(first):
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as taken:
        process = first(taken.getsockname()[1])
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "said: the 2 processes did not meet at 127.0.0.1, port " in said and "Traceback" not in said, said
