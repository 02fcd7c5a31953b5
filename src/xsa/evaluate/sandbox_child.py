"""What runs inside the sandbox. Started by `xsa.evaluate.sandbox` as a script, with nothing but the standard library.

Three processes: this one moves to namespaces of its own and waits; the *keeper* starts the program, watches the clock and
in the end kills all that is left; the *runner* gives up what it may do and runs the program. Orders come as JSON on
standard input; lines of JSON go to the descriptor that the orders name: `ready` when the program begins, `end` when nothing
of it is left.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
import sys
import time
import types

# The package is not installed for this interpreter, which has no site packages; of it one module is wanted.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from xsa.evaluate import sandbox_kernel as kernel

del sys.path[0]

REPORT_BYTES = 8192
# Python's own events; the kernel is what holds where it can, these give a clear error and hold elsewhere.
_REFUSED = ("socket.", "subprocess.", "ctypes.", "pty.", "syslog.", "os.system", "os.exec", "os.spawn", "os.posix_spawn",
            "os.fork", "os.kill", "signal.pthread_kill", "resource.setrlimit", "resource.prlimit")  # fmt: skip
_CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
            "os.utime", "os.setxattr", "os.removexattr", "shutil.rmtree", "shutil.move")  # fmt: skip
_LISTS = ("os.listdir", "os.scandir")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


def main() -> None:
    orders = json.loads(sys.stdin.buffer.read())
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    clib = kernel.libc()
    own = kernel.separate(clib)
    me = os.getpid()
    keeper = os.fork()
    if keeper == 0:
        kernel.die_with_parent(clib, me)
        keep(clib, orders, own)
    _, status = os.waitpid(keeper, 0)
    os._exit(0 if status == 0 else 1)


# --- the keeper ---------------------------------------------------------------------------------------------------


def keep(clib, orders: dict, own: set[str]) -> None:
    """Start the runner, pass its lines on, kill everything when it has ended or its time is over."""
    if "processes" not in own and hasattr(clib, "prctl"):
        kernel.adopt_orphans(clib)
    if "mounts" in own:
        user = kernel.NOBODY if os.geteuid() == 0 else os.geteuid()
        if kernel.mount_folder(clib, orders["folder"], orders["folder_bytes"], orders["folder_files"], user):
            own = own | {"folder"}
    os.chdir(orders["folder"])
    receive, send = os.pipe()
    me = os.getpid()
    runner = os.fork()
    if runner == 0:
        os.dup2(send, 3)
        os.closerange(4, 1 << 12)
        kernel.die_with_parent(clib, me)
        run(clib, orders, own)
    os.close(send)
    lines, status, usage, late = watch(runner, receive, orders["seconds"])
    kill_all(runner, own)
    end = {"status": status, "late": late or (usage or 0.0) >= orders["seconds"]}
    for line in lines[:2]:
        os.write(orders["report"], line[:REPORT_BYTES] + b"\n")
    os.write(orders["report"], json.dumps({"end": end}).encode() + b"\n")
    os._exit(0)


def watch(runner: int, receive: int, seconds: float) -> tuple[list[bytes], int | None, float | None, bool]:
    """The runner's lines, its exit status and CPU seconds (None while it ran on), and whether its time was over.

    The clock starts when the runner is ready, and allows three times the CPU seconds, for sleepers and busy machines.
    """
    text, deadline, status, usage = b"", time.monotonic() + 30, None, None
    while True:
        open_end, _, _ = select.select([receive], [], [], 0.02)
        piece = os.read(receive, REPORT_BYTES) if open_end else b""
        if open_end and not piece:
            time.sleep(0.01)
        if piece and b"\n" not in text and b"\n" in text + piece:
            deadline = time.monotonic() + 3 * seconds + 1
        text += piece[: 4 * REPORT_BYTES - len(text)]
        if status is None:
            pid, found, used = os.wait4(runner, os.WNOHANG)
            if pid:
                status, usage = os.waitstatus_to_exitcode(found), used.ru_utime + used.ru_stime
        # A process that the runner left behind may hold the other end: the runner's own end is what counts.
        if text.count(b"\n") >= 2 or (status is not None and not piece):
            return text.split(b"\n")[:-1], status, usage, False
        if time.monotonic() > deadline:
            return text.split(b"\n")[:-1], status, usage, True


def kill_all(runner: int, own: set[str]) -> None:
    """Kill whatever the runner was and started, however it is called and wherever it went."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        # −1 is everything in this namespace but process 1, which is the keeper.
        for pid in [-1] if "processes" in own else _descendants(os.getpid()) or [runner]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _descendants(root: int) -> list[int]:
    """All processes below `root`, from /proc (none where there is no /proc)."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat", "rb") as handle:
                parents.setdefault(int(handle.read().rpartition(b")")[2].split()[1]), []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        waiting += (children := parents.get(waiting.pop(), []))
        found += children
    return found


# --- the runner ---------------------------------------------------------------------------------------------------


def run(clib, orders: dict, own: set[str]) -> None:
    """Give up rights, run the program, report how it ended on descriptor 3."""
    confinement = confine(clib, orders, own)
    os.write(3, json.dumps({"ready": confinement}).encode() + b"\n")
    program = types.ModuleType("program")  # not "__main__": a program's own demonstration is no part of the test
    sys.modules["program"] = program
    try:
        exec(compile(orders["program"], "<program>", "exec"), program.__dict__)
        report = {"word": orders["word"]}
    except BaseException as error:  # sys.exit too: it would leave before the tests
        report = {"kind": kind(error), "detail": describe(error)}
    os.write(3, json.dumps(report).encode() + b"\n")
    os._exit(0)


def confine(clib, orders: dict, own: set[str]) -> dict[str, str]:
    """Give up rights one after the other; returns which ones the system let go of."""
    readable, folder = libraries(), os.path.realpath(orders["folder"])  # while /proc can still be read
    seconds = max(1, -int(-orders["seconds"] // 1))
    for name, soft, hard in (
        ("RLIMIT_CPU", seconds, seconds + 1),
        ("RLIMIT_AS", orders["memory_bytes"], orders["memory_bytes"]),
        ("RLIMIT_FSIZE", orders["file_bytes"], orders["file_bytes"]),
        ("RLIMIT_NOFILE", orders["open_files"], orders["open_files"]),
        ("RLIMIT_CORE", 0, 0),
    ):
        if hasattr(resource, name):
            resource.setrlimit(getattr(resource, name), (soft, hard))
    me, landlock = os.getppid(), kernel.landlock_version(clib) > 0
    user = kernel.become_nobody(clib, orders["folder"], readable_by_all(os.__file__), landlock)
    if hasattr(resource, "RLIMIT_NPROC"):  # after root is given up, whom it would not bind
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    kernel.die_with_parent(clib, me)  # changing the user has undone it
    # By the name "." : the folders above may be closed to the user that this process is now.
    landlocked = kernel.restrict_files(clib, [*readable, *_DEVICES], [os.curdir, os.devnull])
    filtered = kernel.filter_calls(clib)
    refuse_in_python(folder, (*readable, *_DEVICES))
    return {
        "network": "namespace of its own"
        if "network" in own
        else "refused by filter"
        if filtered
        else "refused in Python",
        "processes": "refused by filter" if filtered else "refused in Python and by the system's limit",
        "kill": "by namespace" if "processes" in own else "by descent",
        "files": "refused by Landlock" if landlocked else "refused in Python",
        "folder": "in memory, of limited size" if "folder" in own else "on disk",
        "user": user,
    }


def libraries() -> list[str]:
    """Folders and files that Python needs to import its library: modules, shared libraries, time zones."""
    found = {path for path in sys.path if os.path.exists(path)}
    for prefix in {sys.base_prefix, sys.base_exec_prefix, "/usr", "/usr/local", "/"}:
        found |= {os.path.join(prefix, name) for name in ("lib", "lib64")}
    if os.path.exists("/proc/self/maps"):  # wherever the loader found what is in use now
        with open("/proc/self/maps", "rb") as handle:
            mapped = {
                os.fsdecode(line.split(None, 5)[5].strip()) for line in handle if b" /" in line and b".so" in line
            }
        found |= {os.path.dirname(path) for path in mapped}
    found |= {"/usr/share/zoneinfo", "/etc/localtime", "/etc/ld.so.cache"}
    return sorted({os.path.realpath(path) for path in found} - {"/"})


def readable_by_all(path: str) -> bool:
    """True where any user may read the file: the standard library is still needed after rights are given up."""
    if not os.stat(path).st_mode & 0o004:
        return False
    while (path := os.path.dirname(path)) != os.path.dirname(path):
        if not os.stat(path).st_mode & 0o001:
            return False
    return True


def refuse_in_python(folder: str, readable: tuple[str, ...]) -> None:
    """From here on Python itself refuses sockets, processes, foreign functions, and files that are not for the program."""
    realpath = os.path.realpath

    def within(path: object, roots: tuple[str, ...]) -> bool:
        if isinstance(path, int) or path is None:
            return True
        place = realpath(os.fsdecode(path)) + os.sep
        return any(place.startswith(root + os.sep) for root in roots)

    def hook(event: str, arguments: tuple) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & _WRITING
            if not within(path, (folder, os.devnull) if writes else (folder, *readable)):
                raise PermissionError(f"{'writing' if writes else 'reading'} {path} is refused here")
        elif event in _CHANGES:
            paths = [path for path in arguments if isinstance(path, (str, bytes, os.PathLike))]
            if not all(within(path, (folder,)) for path in paths):
                raise PermissionError(f"{event} outside the working folder is refused here")
        elif event in _LISTS:
            if not within(arguments[0] or ".", (folder, *readable)):
                raise PermissionError(f"{event} of {arguments[0]} is refused here")
        elif event.startswith(_REFUSED):
            raise PermissionError(f"{event} is refused here")

    sys.addaudithook(hook)


def kind(error: BaseException) -> str:
    """What an exception was, as `xsa.evaluate.sandbox.KINDS` names it."""
    if isinstance(error, AssertionError):
        return "wrong"
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, SystemExit):
        return "left early"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "refused"
    if isinstance(error, OSError):
        if error.errno == errno.ENOMEM:
            return "memory"
        if error.errno in (errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT):
            return "files"
        if isinstance(error, PermissionError) or isinstance(error.__context__, PermissionError):
            return "refused"
    return "error"


def describe(error: BaseException) -> str:
    """The exception's type and message, whatever its own `__str__` does."""
    try:
        return f"{type(error).__name__}: {error}"[:200].rstrip(": ")
    except BaseException:
        return "an exception without a readable message"


if __name__ == "__main__":
    main()
