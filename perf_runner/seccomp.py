"""A seccomp filter for the sandbox: system calls that no benchmark needs and kernel exploits often use.

Everything else is allowed. Nested user namespaces are refused, because inside one a process regains
capabilities over a large part of the kernel. `clone3` says "not implemented", so that libraries fall back to
`clone`, whose flags a filter can read (a filter cannot follow pointers).
"""

import errno
import platform
import struct

# struct sock_filter codes: load a word of seccomp_data, jump when equal, jump when a bit is set, return.
LOAD, JUMP_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER_OFFSET, ARCH_OFFSET, FIRST_ARGUMENT_OFFSET = 0, 4, 16
CLONE_NEWUSER = 0x10000000

X86_64 = {
    "arch": 0xC000003E,
    "clone": 56,
    "clone3": 435,
    "unshare": 272,
    "setns": 308,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "move_mount": 429,
    "open_tree": 428,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "mount_setattr": 442,
    "keyctl": 250,
    "add_key": 248,
    "request_key": 249,
    "bpf": 321,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_by_handle_at": 304,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "init_module": 175,
    "finit_module": 313,
    "delete_module": 176,
    "kexec_load": 246,
    "kexec_file_load": 320,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "acct": 163,
    "quotactl": 179,
}
AARCH64 = {
    "arch": 0xC00000B7,
    "clone": 220,
    "clone3": 435,
    "unshare": 97,
    "setns": 268,
    "mount": 40,
    "umount2": 39,
    "pivot_root": 41,
    "chroot": 51,
    "move_mount": 429,
    "open_tree": 428,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "mount_setattr": 442,
    "keyctl": 219,
    "add_key": 217,
    "request_key": 218,
    "bpf": 280,
    "perf_event_open": 241,
    "userfaultfd": 282,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_by_handle_at": 265,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "init_module": 105,
    "finit_module": 273,
    "delete_module": 106,
    "kexec_load": 104,
    "kexec_file_load": 294,
    "swapon": 224,
    "swapoff": 225,
    "reboot": 142,
    "acct": 89,
    "quotactl": 60,
}
TABLES = {"x86_64": X86_64, "aarch64": AARCH64}
# x86-64 only: the x32 calls share the architecture word and carry this bit in their number.
X32_BIT = 0x40000000


def instruction(code: int, operand: int, when_true: int = 0, when_false: int = 0) -> bytes:
    """Return one BPF instruction; the jumps count instructions that are skipped."""
    return struct.pack("<HBBI", code, when_true, when_false, operand)


def seccomp_program(machine: str = "") -> bytes | None:
    """Return the filter for `machine` (default: this one), None for an architecture without a table."""
    table = TABLES.get(machine or platform.machine())
    if table is None:
        return None
    program = [instruction(LOAD, ARCH_OFFSET), instruction(JUMP_EQUAL, table["arch"], 1, 0)]
    program += [instruction(RETURN, KILL_PROCESS), instruction(LOAD, NUMBER_OFFSET)]
    if table is X86_64:
        program += refuse_when(JUMP_SET, X32_BIT, errno.ENOSYS)
    program += refuse_when(JUMP_EQUAL, table["clone3"], errno.ENOSYS)
    for name, number in table.items():
        if name not in ("arch", "clone", "clone3"):
            program += refuse_when(JUMP_EQUAL, number, errno.EPERM)
    program += [instruction(JUMP_EQUAL, table["clone"], 0, 3), instruction(LOAD, FIRST_ARGUMENT_OFFSET)]
    program += refuse_when(JUMP_SET, CLONE_NEWUSER, errno.EPERM)
    return b"".join([*program, instruction(RETURN, ALLOW)])


def refuse_when(jump: int, operand: int, error: int) -> list[bytes]:
    """Return two instructions: where `jump` holds, the call fails with `error`."""
    return [instruction(jump, operand, 0, 1), instruction(RETURN, ERRNO | error)]
