"""What runs inside the sandbox: reads its orders, gives up what it may do, runs the program, reports.

Started by `xsa.evaluate.sandbox` as a script of its own, with nothing but the standard library. Orders come as JSON on
standard input; the report goes as one line of JSON to the descriptor that the orders name.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import struct
import sys

# System calls that a program has no business with, and their numbers on x86-64 and arm64 (None: not there).
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column below, the kernel's name of the machine
_CALLS = {
    # network
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242), "sendto": (44, 206), "sendmsg": (46, 211),
    # processes, signals to others, limits
    "clone": (56, 220), "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "pidfd_send_signal": (424, 424),
    "setpgid": (109, 154), "setsid": (112, 157), "setrlimit": (160, 164), "prlimit64": (302, 261),
    # reaching into other processes and the kernel
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "unshare": (272, 97),
    "setns": (308, 268), "pivot_root": (155, 41), "chroot": (161, 51), "mount": (165, 40), "umount2": (166, 39),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "perf_event_open": (298, 241),
    "bpf": (321, 280), "userfaultfd": (323, 282),
    # io_uring, which does any of these without a call of its own
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
}  # fmt: skip
_CLONE3 = 435
_NOBODY = 65534
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000

# Python's own events; the filter above is what holds where it exists, these give a clear error and hold elsewhere.
_REFUSED = ("socket.", "subprocess.", "ctypes.", "pty.", "syslog.", "os.system", "os.exec", "os.spawn", "os.posix_spawn",
            "os.fork", "os.kill", "signal.pthread_kill", "resource.setrlimit", "resource.prlimit")  # fmt: skip
_CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
            "os.utime", "os.setxattr", "os.removexattr", "shutil.rmtree", "shutil.move")  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def main() -> None:
    orders = json.loads(sys.stdin.buffer.read())
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    confinement = confine(orders)
    report = {"confinement": confinement}
    try:
        # Not "__main__": a program's own demonstration at its end is not part of the test.
        exec(compile(orders["program"], "<program>", "exec"), {"__name__": "program"})
        report["word"] = orders["word"]
    except BaseException as error:  # sys.exit too: it would leave before the tests
        report["detail"] = describe(error)
    os.write(orders["report"], json.dumps(report).encode() + b"\n")
    os._exit(0)


def describe(error: BaseException) -> str:
    """The exception's type and message, whatever its own `__str__` does."""
    try:
        return f"{type(error).__name__}: {error}"[:200].rstrip(": ")
    except BaseException:
        return "an exception without a readable message"


def confine(orders: dict) -> dict[str, str]:
    """Give up rights one after the other; returns which ones the system let go of."""
    libc = ctypes.CDLL(None, use_errno=True)
    root = os.geteuid() == 0
    flags = _NEW_NET if root else _NEW_USER | _NEW_NET
    network = hasattr(libc, "unshare") and libc.unshare(flags) == 0
    dropped = root and readable_by_all(os.__file__)
    if dropped:
        os.chown(orders["folder"], _NOBODY, _NOBODY)
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    seconds = max(1, -int(-orders["seconds"] // 1))
    for name, soft, hard in (
        ("RLIMIT_CPU", seconds, seconds + 1),
        ("RLIMIT_AS", orders["memory_bytes"], orders["memory_bytes"]),
        ("RLIMIT_FSIZE", orders["file_bytes"], orders["file_bytes"]),
        ("RLIMIT_NOFILE", orders["open_files"], orders["open_files"]),
        ("RLIMIT_NPROC", 1, 1),
        ("RLIMIT_CORE", 0, 0),
    ):
        if hasattr(resource, name):
            resource.setrlimit(getattr(resource, name), (soft, hard))
    filtered = filter_calls(libc)
    refuse_in_python(os.path.realpath(orders["folder"]))
    return {
        "network": "namespace of its own" if network else "refused by filter" if filtered else "refused in Python",
        "processes": "refused by filter" if filtered else "refused in Python and by the system's limit",
        "user": "nobody" if dropped else "root, for its library is unreadable to others" if root else "the user",
    }


def readable_by_all(path: str) -> bool:
    """True where any user may read the file: the standard library is still needed after rights are given up."""
    if not os.stat(path).st_mode & 0o004:
        return False
    while (path := os.path.dirname(path)) != os.path.dirname(path):
        if not os.stat(path).st_mode & 0o001:
            return False
    return True


def filter_calls(libc: ctypes.CDLL) -> bool:
    """Have the kernel refuse the calls of `_CALLS` from here on (seccomp, BPF). False where it cannot."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    column, arch = _MACHINES[platform.machine()]
    refused = [numbers[column] for numbers in _CALLS.values() if numbers[column] is not None]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    allow, errno = 0x7FFF0000, 0x00050000
    not_permitted, not_there = errno | 1, errno | 38

    def line(code: int, yes: int, no: int, value: int) -> bytes:
        return struct.pack("HBBI", code, yes, no, value)

    program = [line(load, 0, 0, 4), line(equal, 1, 0, arch), line(give, 0, 0, not_permitted), line(load, 0, 0, 0)]
    # x86-64 has a second set of numbers from 2**30 on, which would get round the list.
    program += [line(at_least, 0, 1, 0x40000000), line(give, 0, 0, not_permitted)]
    # glibc tries clone3 first and only turns to clone where clone3 is not there.
    program += [line(equal, 0, 1, _CLONE3), line(give, 0, 0, not_there)]
    for number in refused:
        program += [line(equal, 0, 1, number), line(give, 0, 0, not_permitted)]
    program.append(line(give, 0, 0, allow))
    code = ctypes.create_string_buffer(b"".join(program))
    pointer = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    return libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0 and libc.prctl(set_seccomp, filter_mode, pointer, 0, 0) == 0


def refuse_in_python(folder: str) -> None:
    """From here on Python itself refuses sockets, processes, foreign functions, and writing outside `folder`."""

    def outside(path: object) -> bool:
        if isinstance(path, int):
            return False
        return not (os.path.realpath(os.fsdecode(path)) + os.sep).startswith(folder + os.sep)

    def hook(event: str, arguments: tuple) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & _WRITING
            if writes and path is not None and outside(path):
                raise PermissionError(f"writing {path} is refused here")
        elif event in _CHANGES:
            paths = [path for path in arguments if isinstance(path, (str, bytes, os.PathLike))]
            if any(outside(path) for path in paths):
                raise PermissionError(f"{event} outside the working folder is refused here")
        elif event.startswith(_REFUSED):
            raise PermissionError(f"{event} is refused here")

    sys.addaudithook(hook)


if __name__ == "__main__":
    main()
