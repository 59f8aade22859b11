"""Code for all kinds of sandboxes, which tries to use what one kernel has for all its processes."""

# Defines probe(), which returns {name: error number, 0 for success} of all calls that were not denied.
CALLS = """
def probe():
    import ctypes, mmap, os, platform, tempfile
    libc = ctypes.CDLL(None, use_errno=True)
    memory = ctypes.create_string_buffer(4096)
    address = ctypes.addressof(memory) + -ctypes.addressof(memory) % 2048
    zeros = ctypes.create_string_buffer(512)
    fd = os.open(os.__file__, os.O_RDONLY)
    page = mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
    own, one = os.getpid(), (ctypes.c_ulong * 2)(address, 8)
    calls = {
        "add_key": (248, b"user", b"probe", b"x", 1, -3), "request_key": (249, b"user", b"probe", None, -3),
        "keyctl": (250, 0, -3, 1), "keyctl, the user's": (250, 0, -4, 1), "io_uring_setup": (425, 1, zeros),
        "io_uring_enter": (426, -1, 0, 0, 0, None, 0), "io_uring_register": (427, -1, 0, None, 0),
        "io_setup": (206, 1, zeros), "mq_open": (240, b"probe", 0o102, 0o600, None),
        "process_vm_readv": (310, own, one, 1, one, 1, 0), "process_vm_writev": (311, own, one, 1, one, 1, 0),
        "kcmp": (312, own, own, 0, 0, 0), "pidfd_getfd": (438, fd, 0, 0), "ptrace": (101, 0x4200, own, 0, 0),
        "process_madvise": (440, -1, one, 1, 20, 0), "bpf": (321, 0, zeros, 128), "syslog": (103, 10, 0, 0),
        "perf_event_open": (298, zeros, 0, -1, -1, 0), "userfaultfd": (323, 1), "fanotify_init": (300, 0, 0),
        "preadv2, what is in the cache": (327, fd, one, 1, 0, 0, 8), "pwritev2": (328, fd, one, 1, 0, 0, 0),
        "cachestat": (451, fd, zeros, zeros, 0), "inotify": (254, libc.inotify_init1(0), b"/usr", 0xFFF),
        "name_to_handle_at": (303, -100, b"/usr", zeros, zeros, 0), "a call of the future": (600, 0, 0, 0),
        "open_by_handle_at": (304, fd, zeros, 0), "a lease": (72, fd, 1024, 0), "a watch": (72, fd, 1026, 1),
        "a socket of the host": (41, 40, 1, 0), "a socket for cryptography": (41, 38, 5, 0),
    }
    allowed = {}
    def note(name, result, error):
        if result != -1 or error not in (1, 38):
            allowed[name] = error if result == -1 else 0
    if platform.machine() == "x86_64":
        for name, (number, *arguments) in calls.items():
            for abi, bit in (("", 0), (", x32", 0x40000000)):
                ctypes.set_errno(0)
                note(name + abi, libc.syscall(number | bit, *arguments), ctypes.get_errno())
        where = ctypes.c_void_p(address)
        kept = ctypes.pythonapi.PyObject_GetBuffer
        view = ctypes.create_string_buffer(80)
        if kept(ctypes.py_object(page), view, 0) == 0:  # the address of the mapped file
            mapped = ctypes.c_void_p.from_buffer(view).value
            note("mincore", libc.syscall(27, ctypes.c_void_p(mapped), 4096, where), ctypes.get_errno())
        code = mmap.mmap(-1, 4096, prot=7)
        code.write(b"\\x53\\xb8" + (286).to_bytes(4, "little") + b"\\x31\\xdb\\x31\\xc9\\xcd\\x80\\x5b\\xc3")
        start = ctypes.addressof(ctypes.c_char.from_buffer(code))
        found = ctypes.CFUNCTYPE(ctypes.c_int)(start)()  # add_key, as a program of 32 bits calls it
        note("add_key, 32 bits", -1 if found < 0 else found, -found)
    for path in ("/proc/keys", "/proc/key-users"):
        try:
            if open(path).read():
                allowed[path] = 0
        except OSError:
            pass
    return allowed
"""
# Defines families(), which returns what probe() finds here, in a child and in a thread.
FAMILIES = (
    CALLS
    + """
def families():
    import json, os, threading
    found = {"here": probe()}
    source, target = os.pipe()
    if os.fork() == 0:
        os.write(target, json.dumps(probe()).encode())
        os._exit(0)
    os.close(target)
    with open(source, "rb") as file:
        found["a child"] = json.loads(file.read() or b'{"no answer": 0}')
    thread = threading.Thread(target=lambda: found.update({"a thread": probe()}))
    thread.start()
    thread.join()
    return {where: allowed for where, allowed in found.items() if allowed}
"""
)
# fill() puts as many open files in transit and signals in queues as Linux lets one user have, and returns
# their numbers. send_one() returns the error numbers for one of each.
IN_TRANSIT = """
import array, ctypes, os, signal, socket
libc, kept = ctypes.CDLL(None, use_errno=True), []
def queue():
    signal.pthread_sigmask(signal.SIG_BLOCK, [40])
    return -libc.sigqueue(os.getpid(), 40, None) * ctypes.get_errno()
def fill():
    signals = next(n for n in range(10**6) if queue())
    count = 0
    while True:
        ends = socket.socketpair(socket.AF_UNIX)
        kept.append(ends)
        try:
            for _ in range(20):
                ends[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 100))])
                count += 100
        except OSError:
            return count, signals
def send_one():
    ends = socket.socketpair(socket.AF_UNIX)
    try:
        ends[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
    except OSError as error:
        return error.errno, queue()
    return 0, queue()
"""
