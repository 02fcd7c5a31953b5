"""What the sandbox asks of the Linux kernel: namespaces, giving up root, files by list (Landlock), calls by list (seccomp).

Used by `sandbox_child.py` inside the fresh interpreter, so nothing but the standard library. Every function says whether
the kernel did as asked; a kernel or container that does not allow one thing may allow the others.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

NOBODY = 65534
_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_PIDS, _NEW_NET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_KEEP_CAPABILITIES, _NO_NEW_PRIVILEGES, _SECCOMP, _SUBREAPER, _PARENT_DEATH = 8, 38, 22, 36, 1
_READ_ANY_FILE = 2  # the capability CAP_DAC_READ_SEARCH
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446

# System calls that a program has no business with, and their numbers on x86-64 and arm64 (None: not there).
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column below, the kernel's name of the machine
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CALLS = {
    # network
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242), "sendto": (44, 206), "sendmsg": (46, 211),
    # processes, signals to others, limits
    "clone": (56, 220), "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "setpgid": (109, 154), "setsid": (112, 157), "setrlimit": (160, 164),
    "prlimit64": (302, 261), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
    # memory and messages that outlive a process
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    # what a file is, rather than what is in it: Landlock does not look at these
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "mknod": (133, None), "mknodat": (259, 33), "open_by_handle_at": (304, 265),
    # reaching into other processes and the kernel
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "unshare": (272, 97),
    "setns": (308, 268), "pivot_root": (155, 41), "chroot": (161, 51), "mount": (165, 40), "umount2": (166, 39),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "fanotify_init": (300, 262), "quotactl": (179, 60),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "perf_event_open": (298, 241),
    "bpf": (321, 280), "userfaultfd": (323, 282), "init_module": (175, 105), "finit_module": (313, 273),
    "reboot": (169, 142), "settimeofday": (164, 170), "clock_settime": (227, 112), "personality": (135, 92),
    # io_uring, which does any of these without a call of its own
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
}  # fmt: skip
_CLONE3 = 435


def libc() -> ctypes.CDLL:
    """The C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def separate(clib: ctypes.CDLL) -> set[str]:
    """Move this process to namespaces of its own (the first set that is allowed); its next child is process 1 in them."""
    rest = _NEW_MOUNTS | _NEW_IPC | _NEW_PIDS | _NEW_NET
    user, group = os.geteuid(), os.getegid()
    own = 0 if user == 0 else _NEW_USER
    for flags, names in ((own | rest, {"mounts", "processes", "network"}), (own | _NEW_NET, {"network"})):
        if hasattr(clib, "unshare") and clib.unshare(flags) == 0:
            if own:
                _write("/proc/self/setgroups", "deny")
                _write("/proc/self/uid_map", f"{user} {user} 1")
                _write("/proc/self/gid_map", f"{group} {group} 1")
            return names
    return set()


def _write(path: str, text: str) -> None:
    with open(path, "w") as handle:
        handle.write(text)


def mount_folder(clib: ctypes.CDLL, folder: str, size: int, files: int, user: int) -> bool:
    """Put an empty file system in memory, of `size` bytes and `files` files, over the folder, for this namespace alone."""
    private, no_suid_no_devices = 0x44000, 0x6
    options = f"size={size},nr_inodes={files},mode=700,uid={user}".encode()
    if clib.mount(None, b"/", None, private, None) != 0:
        return False
    return clib.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", no_suid_no_devices, options) == 0


def adopt_orphans(clib: ctypes.CDLL) -> bool:
    """From here on, what loses its parent among this process's descendants becomes its child, so that it can be found."""
    return clib.prctl(_SUBREAPER, 1, 0, 0, 0) == 0


def die_with_parent(clib: ctypes.CDLL, parent: int) -> None:
    """Be killed when the parent ends; at once where it has ended already."""
    if hasattr(clib, "prctl"):
        clib.prctl(_PARENT_DEATH, 9, 0, 0, 0)
    if os.getppid() not in (parent, 0):
        os._exit(1)


def become_nobody(clib: ctypes.CDLL, folder: str, readable: bool, landlocked: bool) -> str:
    """Give up root for the user `nobody`, with no capability; returns who this process is now, in words.

    Where the standard library is not readable to others (a Python in root's home), the right to read any file is kept,
    for Landlock then decides what may be read; without Landlock only the capabilities are given up.
    """
    if os.geteuid() != 0:
        _drop_capabilities(clib, keep=0)
        return "the user, without rights over others"
    if not readable and not landlocked:
        _drop_capabilities(clib, keep=0)
        return "root without its rights, for the library is unreadable to others"
    try:
        os.chown(folder, NOBODY, NOBODY)
        if not readable:
            clib.prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    except OSError:
        _drop_capabilities(clib, keep=0)
        return "root without its rights, for there is no other user here"
    _drop_capabilities(clib, keep=0 if readable else 1 << _READ_ANY_FILE)
    return "nobody" if readable else "nobody, reading the library by Landlock's list"


def _drop_capabilities(clib: ctypes.CDLL, keep: int) -> None:
    number = _CAPSET.get(platform.machine())
    if number is not None and sys.platform == "linux":
        version_3 = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
        sets = ctypes.create_string_buffer(struct.pack("IIIIII", keep, keep, 0, 0, 0, 0))
        clib.syscall(number, version_3, sets)


def landlock_version(clib: ctypes.CDLL) -> int:
    """The version of Landlock that this kernel has; 0 for none."""
    return max(0, clib.syscall(_LANDLOCK_CREATE, None, 0, 1)) if sys.platform == "linux" else 0


def restrict_files(clib: ctypes.CDLL, readable: list[str], writable: list[str]) -> bool:
    """Have the kernel refuse every file but those below `readable` (to read) and `writable`; also TCP, where it can."""
    version = landlock_version(clib)
    if not version:
        return False
    everything = (1 << (13 if version == 1 else 14 if version == 2 else 15 if version < 5 else 16)) - 1
    reading = 0b1101  # execute (libraries), read a file, read a folder
    tcp = 0b11 if version >= 4 else 0
    scopes = 0b11 if version >= 6 else 0  # no signals and no abstract sockets to what is outside
    rules = struct.pack("QQQ", everything, tcp, scopes)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = clib.syscall(_LANDLOCK_CREATE, ctypes.create_string_buffer(rules, len(rules)), len(rules), 0)
    if ruleset < 0:
        return False
    devices_too = everything & ~(1 << 6) & ~(1 << 11)  # no character and block devices are made
    for paths, rights in ((readable, reading), (writable, devices_too)):
        for path in paths:
            _allow(clib, ruleset, path, rights)
    done = clib.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and clib.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return done


def _allow(clib: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        rights &= 0b111 | 1 << 14 | 1 << 15  # what can be done to a file
    clib.syscall(_LANDLOCK_ADD, ruleset, 1, ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor)), 0)
    os.close(descriptor)


def filter_calls(clib: ctypes.CDLL) -> bool:
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
    filter_mode = 2
    return clib.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and clib.prctl(_SECCOMP, filter_mode, pointer, 0, 0) == 0
