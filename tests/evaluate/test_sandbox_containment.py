"""Programs that mean harm. Each is tried three times: as shipped; with the kernel's part alone, as if a program had got round
Python's own refusals; and with Python's part alone, as on a system whose kernel offers nothing."""

from __future__ import annotations

import os
import sys
import tempfile
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from xsa.evaluate import sandbox as module
from xsa.evaluate.sandbox import Limits, Sandbox

SOURCE = Path(module.__file__).parents[2]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part exists on Linux alone")

# A child that lacks some of its parts.
WITHOUT = {
    "python": "child.refuse_in_python = lambda *arguments: None",
    "namespaces": "kernel.separate = lambda clib: set()",
    "landlock": "kernel.landlock_version = lambda clib: 0",
    "calls": "kernel.filter_calls = lambda clib: False",
    "processes": "import resource as r\nset_ = r.setrlimit\nr.setrlimit = lambda n, v: n == r.RLIMIT_NPROC or set_(n, v)",
}


@pytest.fixture
def without(tmp_path, monkeypatch):
    """`without(*parts)`: a sandbox whose child lacks them, its canaries not asked."""

    def make(*parts: str) -> Sandbox:
        lines = [f"import sys\nsys.path.insert(0, {str(SOURCE)!r})\nfrom xsa.evaluate import sandbox_child as child"]
        lines += ["kernel = child.kernel", *(WITHOUT[part] for part in parts), "del sys.path[0]", "child.main()"]
        (tmp_path / "child.py").write_text("\n".join(lines) + "\n")
        if parts:
            monkeypatch.setattr(module, "CHILD", tmp_path / "child.py")
        made = Sandbox.__new__(Sandbox)
        made.limits, made.confinement = Limits(seconds=0.3, memory_bytes=256 * 2**20), {}
        return made

    return make


@pytest.fixture(scope="module")
def kernel_holds():
    """Skips where the kernel or container offers no Landlock or no call filter, so that only Python refuses."""
    held = Sandbox(Limits(seconds=1)).confinement
    if (held["files"], held["processes"]) != ("refused by Landlock", "refused by filter"):
        pytest.skip(f"not held by the kernel here: {held}")


@pytest.fixture
def home():
    """A folder outside with a file in it, both open to every user of the machine."""
    # Not below pytest's own folder, which another run of pytest closes to others when it starts.
    with tempfile.TemporaryDirectory(prefix="xsa-home-") as name:
        folder = Path(name)
        (folder / "secret.txt").write_text("secret")
        for path in (folder, folder / "secret.txt"):
            path.chmod(0o777)
        yield folder


PLAIN = {
    "write outside": ("open(SECRET, 'w').write('gone')", {"refused"}),
    "make a file outside": ("open(HOME + '/new', 'w')", {"refused"}),
    "append outside": ("open(SECRET, 'a').write('more')", {"refused"}),
    "remove outside": ("import os; os.remove(SECRET)", {"refused"}),
    "truncate outside": ("import os; os.truncate(SECRET, 0)", {"refused"}),
    "rename outside": ("import os; os.rename(SECRET, HOME + '/other')", {"refused"}),
    "open up outside": ("import os; os.chmod(SECRET, 0)", {"refused"}),
    "link and write": ("import os; os.symlink(SECRET, 'link'); open('link', 'w')", {"refused"}),
    "read the home folder": ("open(SECRET).read()", {"refused"}),
    "list the home folder": ("import os; os.listdir(HOME)", {"refused"}),
    "read another's environment": ("import os; open(f'/proc/{PARENT}/environ').read()", {"refused"}),
    "fork without end": ("import os\nwhile True: os.fork()", {"refused"}),
    "start a shell": ("import subprocess; subprocess.run('true', shell=True, check=True)", {"refused"}),
    "replace itself": ("import os; os.execv('/bin/sh', ['sh', '-c', 'true'])", {"refused"}),
    "allocate without end": ("a = []\nwhile True: a.append(bytearray(2**22))", {"memory"}),
    "sleep": ("import time; time.sleep(600)", {"time"}),
    "spin, whatever it is told": (
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        {"time"},
    ),
    "close its report and spin": ("import os\nos.close(3)\nwhile True: pass", {"time"}),
    "kill the parent": ("import os; os.kill(os.getppid(), 9)", {"refused"}),
    "kill the harness": ("import os; os.kill(PARENT, 9)", {"refused"}),
    "kill everything": ("import os; os.kill(-1, 9)", {"refused"}),
    "delete the working folder": (
        "import os, shutil\nopen('x', 'w').close()\nshutil.rmtree(os.getcwd())",
        {"refused", "error", "passed"},  # it is its own; where it is mounted or locked, even that fails
    ),
    "print gigabytes": ("import sys\nwhile True: sys.stdout.write('x' * 2**24)", {"time"}),
    "print gigabytes to the report": ("import os\nwhile True: os.write(3, b'x' * 2**20)", {"time"}),
    "map more memory than there is": ("import mmap\nmmap.mmap(-1, 2**33)", {"memory"}),
    "write a large file": ("f = open('x', 'wb')\nwhile True: f.write(b'x' * 2**20)", {"files"}),
    "open without end": ("x = [open(f'{n}', 'w') for n in range(1000)]", {"files"}),
    "nest without end": (
        "import os\nfor _ in range(3000):\n os.mkdir('d')\n os.chdir('d')",
        {"files", "refused", "passed", "time"},
    ),
    "recurse without end": (
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
        {"killed", "memory", "error", "time"},
    ),
    "open a socket": ("import socket; socket.create_connection(('127.0.0.1', 9))", {"refused"}),
    "lift its limits": (
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (99, 99))",
        {"refused", "error"},
    ),
    "leave early": ("import os; os._exit(0)", {"left early"}),
}
# With foreign functions a program reaches the system directly. Each call must fail; one that does not ends as passed.
FOREIGN = {
    "write outside": "c.open(SECRET.encode(), 1)",
    "remove outside": "c.unlink(SECRET.encode())",
    "rename outside": "c.rename(SECRET.encode(), b'mine')",
    "open up outside": "c.chmod(SECRET.encode(), 0)",
    "give away outside": "c.chown(SECRET.encode(), 1000, 1000)",
    "read the home folder": "c.open(SECRET.encode(), 0)",
    "read another's environment": "c.open(f'/proc/{PARENT}/environ'.encode(), 0)",
    "fork": "c.fork()",
    "kill the parent": "c.kill(os.getppid(), 9)",
    "kill the harness": "c.kill(PARENT, 9)",
    "kill everything": "c.kill(-1, 9)",
    "delete the working folder": "c.rmdir(os.getcwd().encode())",
    "replace itself": "c.execv(b'/bin/sh', (ctypes.c_char_p * 2)(b'sh', None))",
    "open a socket": "c.socket(2, 1, 0)",
    "become root": "c.setuid(0) if os.geteuid() else -1",
    "mount": "c.mount(b'none', os.getcwd().encode(), b'tmpfs', 0, None)",
    "make a namespace": "c.unshare(0x10000000)",
    "trace the parent": "c.ptrace(16, os.getppid(), None, None)",
    "share memory beyond its end": "c.shmget(77, 2**30, 0o1777)",
    "allocate": "-1 if c.mmap(None, ctypes.c_size_t(2**33), 3, 0x22, -1, 0) == 2**64 - 1 else 0",
}
FOREIGN_HEAD = (
    "import ctypes, os\nc = ctypes.CDLL(None, use_errno=True)\nc.mmap.restype = ctypes.c_size_t\n"
    "c.ptrace.restype = ctypes.c_long\n"
)
REFUSED_ERRNO = "if r == -1: raise SystemExit('refused')\n"

MODES = {
    "as shipped": (),
    "kernel alone": ("python",),
    "python alone": ("namespaces", "landlock", "calls"),
}


def told(program: str, home: Path) -> str:
    return f"HOME, SECRET, PARENT = {str(home)!r}, {str(home / 'secret.txt')!r}, {os.getpid()}\n" + program


def unharmed(home: Path) -> bool:
    secret = home / "secret.txt"
    return [p.name for p in home.iterdir()] == ["secret.txt"] and (
        secret.read_text(),
        secret.stat().st_mode & 0o777,
    ) == ("secret", 0o777)


@LINUX
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PLAIN)
def test_harm_is_contained_and_counted_and_the_next_program_runs(
    without, home, mode, name, tmp_path, monkeypatch, request
):
    if mode == "kernel alone":
        request.getfixturevalue("kernel_holds")
    monkeypatch.setattr(module.tempfile, "tempdir", str(folders := tmp_path / "folders"))
    folders.mkdir()
    sandbox = without(*MODES[mode])
    program, kinds = PLAIN[name]
    outcome = sandbox.run(told(program, home))
    assert outcome.kind in kinds, outcome
    assert unharmed(home)
    assert list(folders.iterdir()) == []
    assert sandbox.run("assert 1").passed


@LINUX
@pytest.mark.parametrize("name", FOREIGN)
def test_the_kernel_refuses_what_python_would_not_see(without, home, name, kernel_holds):
    sandbox = without("python")
    outcome = sandbox.run(told(FOREIGN_HEAD + f"r = {FOREIGN[name]}\n" + REFUSED_ERRNO, home))
    assert (outcome.kind, outcome.detail) == ("left early", "SystemExit: refused")
    assert unharmed(home)
    assert sandbox.run("assert 1").passed


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_functions_are_refused_as_shipped(without, home, name):
    assert without().run(told(FOREIGN_HEAD + FOREIGN[name], home)).kind == "refused"
    assert unharmed(home)


DAEMON = textwrap.dedent(
    """
    import os, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            while True:
                time.sleep(0.02)
                open(HOME + '/alive', 'a').write('x')
        os._exit(0)
    time.sleep({sleep})
    """
)


@LINUX
@pytest.mark.parametrize("namespaces", [True, False])
@pytest.mark.parametrize("ending", ["passed", "time"])
def test_children_that_fork_twice_and_leave_the_session_are_killed(without, home, namespaces, ending):
    # Everything that would refuse them is taken away, so that they do live until the end.
    parts = ("python", "landlock", "calls", "processes", *(() if namespaces else ("namespaces",)))
    sandbox = without(*parts)
    assert sandbox.run(told(DAEMON.format(sleep=0.5 if ending == "passed" else 600), home)).kind == ending
    alive = home / "alive"
    before = alive.stat().st_size
    assert before > 0
    assert sandbox.run("import time; time.sleep(0.3)").passed
    assert alive.stat().st_size == before
    assert sandbox.confinement["kill"] == ("by namespace" if namespaces else "by descent") or namespaces


@LINUX
def test_a_crowd_of_children_is_killed(without, home):
    sandbox = without("python", "landlock", "calls", "processes")
    program = "import os, time\nfor _ in range(5): os.fork()\nopen(HOME + f'/{os.getpid()}', 'w')\ntime.sleep(600)"
    assert sandbox.run(told(program, home)).kind == "time"
    assert len(list(home.iterdir())) == 33
    assert sandbox.run("assert 1").passed
    crowd = {path.name for path in home.iterdir()} - {"secret.txt"}
    commands = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):  # others end meanwhile
            commands.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    assert len(crowd) == 32 and not [command for command in commands if b"child.py" in command]
