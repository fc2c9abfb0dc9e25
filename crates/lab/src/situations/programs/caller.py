"""A caller that writes down what each operation took: connecting, the first byte, all, what went wrong. One line of
JSON an operation, in the clock of the kernel (CLOCK_MONOTONIC). Ends on SIGTERM, and by itself after two minutes."""

import json, os, random, re, signal, socket, ssl, struct, subprocess, sys, threading, time

SPEC = json.load(open(sys.argv[1]))
now = time.monotonic
lock = threading.Lock()
log = open(SPEC["log"], "a", buffering=1)
under_way = {}


def note(began, error=None, connect=None, first=None, size=0, window=None):
    line = {"t": round(began, 6), "s": round(now() - began, 6), "n": size}
    for key, value in (("e", error), ("c", connect), ("f", first), ("w", window)):
        if value is not None:
            line[key] = round(value, 6) if isinstance(value, float) else value
    with lock:
        log.write(json.dumps(line) + "\n")


def wrong(key, default=None):
    try:
        return json.load(open(SPEC["switch"])).get(key, default)
    except (OSError, ValueError):
        return default


def patience():
    return wrong("patience", SPEC["patience"])


class Failed(Exception):
    pass


def why(error):
    if isinstance(error, socket.timeout):
        return "timeout"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def look_up():
    """Asks the resolver for the name, as a library does, before it connects."""
    query = struct.pack(">HHHHHH", random.randrange(65536), 0x100, 1, 0, 0, 0)
    query += b"\x07backend\x08internal\x00\x00\x01\x00\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.settimeout(5)
        resolver.connect((SPEC["resolver"], 53))
        resolver.send(query)
        resolver.recv(512)


class Connection:
    """One connection, with its protocol."""

    def __init__(self, target):
        began = now()
        if SPEC.get("resolver"):
            look_up()
        self.sock = socket.socket()
        small = wrong("rcvbuf")
        if small:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, small)
        self.sock.settimeout(patience())
        try:
            self.sock.connect(tuple(target))
            self.took = now() - began
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if SPEC["speaks"] == "tls":
                context = ssl._create_unverified_context()
                self.sock = context.wrap_socket(self.sock)
            self.buffer = b""
            if SPEC["speaks"] == "lines":
                self.until(b"\r\n")
            if SPEC["speaks"] == "postgres":
                words = b"user\0postgres\0database\0postgres\0\0"
                self.sock.sendall(struct.pack(">ii", len(words) + 8, 196608) + words)
                self.ready()
        except Exception:
            self.sock.close()
            raise

    def more(self):
        got = self.sock.recv(1 << 16)
        if not got:
            raise Failed("closed")
        if self.first is None:
            self.first = now()
        self.buffer += got

    first = None

    def until(self, mark):
        while mark not in self.buffer:
            self.more()
        line, self.buffer = self.buffer.split(mark, 1)
        return line

    def exactly(self, size):
        pause = wrong("read_pause", 0)
        got = len(self.buffer)
        left = size - got
        while left > 0:
            part = self.sock.recv(min(left, 16384 if pause else 1 << 18))
            if not part:
                raise Failed("closed")
            if self.first is None:
                self.first = now()
            left -= len(part)
            if pause:
                time.sleep(pause)
            flowed(len(part))
        self.buffer = b""

    def ready(self):
        while True:
            while len(self.buffer) < 5:
                self.more()
            kind, size = self.buffer[:1], struct.unpack(">i", self.buffer[1:5])[0]
            while len(self.buffer) < size + 1:
                self.more()
            self.buffer = self.buffer[size + 1 :]
            if kind == b"E":
                raise Failed("ERROR")
            if kind == b"Z":
                return

    def ask(self):
        self.first = None
        speaks, size = SPEC["speaks"], SPEC["size"]
        if speaks == "postgres":
            query = b"SELECT count(*) FROM orders\0"
            self.sock.sendall(b"Q" + struct.pack(">i", len(query) + 4) + query)
            self.ready()
            return 100
        if speaks == "redis":
            many = SPEC.get("many", 1)
            self.sock.sendall(b"GET key\r\n" * many)
            for _ in range(many):
                length = int(self.until(b"\r\n")[1:])
                while len(self.buffer) < length + 2:
                    self.more()
                self.buffer = self.buffer[length + 2 :]
            return size
        if speaks == "lines":
            many = SPEC.get("many", 0)
            if many:
                for number in range(many):
                    self.sock.sendall(b"many %d\r\n" % number)
                for _ in range(many):
                    self.until(b"\r\n")
            else:
                self.sock.sendall(b"ask %d\r\n" % size)
                self.until(b"\r\n")
            return size
        if SPEC["shape"] == "two-writes":
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0 if wrong("nagle") else 1)
            self.sock.sendall(b"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 600\r\n\r\n")
            self.sock.sendall(b"y" * 600)
        elif SPEC["shape"] == "up":
            self.sock.sendall(b"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
            left = size
            while left > 0:
                part = min(left, 65536)
                self.sock.sendall(b"y" * part)
                flowed(part)
                left -= part
        else:
            path = b"pieces" if SPEC["shape"] == "pieces" else b"%d" % size
            self.sock.sendall(b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
        head = self.until(b"\r\n\r\n")
        if head.split(b" ", 2)[1] != b"200":
            raise Failed("status " + head.split(b" ", 2)[1].decode())
        length = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
        self.exactly(length)
        return length


# What flowed in this window, of bulk.
flow = {"n": 0, "t": now()}
BULK = SPEC["shape"] in ("down", "up", "both")


def flowed(size):
    with lock:
        flow["n"] += size


def windows():
    while True:
        time.sleep(0.25)
        with lock:
            size, began, flow["n"], flow["t"] = flow["n"], flow["t"], 0, now()
        note(began, size=size, window=now() - began)


def operation(kept):
    """One operation as its user meets it, all tries of it."""
    began = now()
    under_way[threading.get_ident()] = began
    error = None
    for _ in range(SPEC["retries"] + 1):
        for target in SPEC["targets"]:
            fresh = kept[0] is None
            try:
                conn = kept[0] or Connection(target)
                conn.sock.settimeout(patience())
                size = conn.ask()
                if not BULK:
                    note(began, connect=conn.took if fresh else None, first=conn.first and conn.first - began, size=size)
                kept[0] = conn
                if not SPEC["keep"]:
                    conn.sock.close()
                    kept[0] = None
                under_way.pop(threading.get_ident(), None)
                return
            except (OSError, Failed, ssl.SSLError, ValueError, TypeError) as failure:
                error = why(failure)
                if kept[0]:
                    kept[0].sock.close()
                    kept[0] = None
    under_way.pop(threading.get_ident(), None)
    note(began, error=error)
    # As most do after an error.
    time.sleep(0.1)


def push():
    while True:
        began = now()
        try:
            conn = Connection(SPEC["targets"][0])
            conn.sock.settimeout(patience())
            conn.sock.sendall(b"push\r\n")
            while True:
                began = now()
                under_way[threading.get_ident()] = began
                conn.until(b"\r\nx")
                note(began, size=400)
        except (OSError, Failed) as failure:
            note(began, error=why(failure))
            time.sleep(0.1)


def both():
    while True:
        began = now()
        try:
            conn = Connection(SPEC["targets"][0])
            conn.sock.sendall(b"both\r\n")
            stop = []

            def send():
                try:
                    while not stop:
                        conn.sock.sendall(b"y" * 65536)
                        flowed(65536)
                except OSError:
                    pass

            threading.Thread(target=send, daemon=True).start()
            while True:
                got = conn.sock.recv(1 << 18)
                if not got:
                    raise Failed("closed")
                flowed(len(got))
        except (OSError, Failed) as failure:
            stop.append(1)
            note(began, error=why(failure))
            time.sleep(0.2)


def command():
    """Debian's own client, a process an operation."""
    words = SPEC["command"]
    began = now()
    under_way[threading.get_ident()] = began
    limit = patience()
    words = [w.replace("{patience}", str(limit)).replace("{more}", wrong("more", "")) for w in words]
    words = [w for w in words if w]
    try:
        done = subprocess.run(words, capture_output=True, timeout=max(limit * 1.5, limit + 1))
        error = None if done.returncode == 0 else f"exit {done.returncode}"
    except subprocess.TimeoutExpired:
        error = "timeout"
    under_way.pop(threading.get_ident(), None)
    note(began, error=error)


def iperf3():
    while True:
        began = now()
        child = subprocess.Popen(SPEC["command"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        children.append(child)
        for line in child.stdout:
            rate = re.search(r"([\d.]+) Kbits/sec", line)
            if rate and "SUM" not in line:
                flowed(int(float(rate[1]) * 1000 / 8 * 0.25))
        child.wait()
        note(began, error=f"exit {child.returncode}")
        time.sleep(0.5)


children = []


def end(*_):
    for began in list(under_way.values()):
        note(began, error="open")
    for child in children:
        child.kill()
    os._exit(0)


def work():
    time.sleep(random.random() * 0.1)
    kept = [None]
    while True:
        if SPEC.get("command"):
            command()
        else:
            operation(kept)
        time.sleep(SPEC["pause"] * (0.8 + 0.4 * random.random()))


random.seed(SPEC["seed"])
signal.signal(signal.SIGTERM, end)
endless = {"push": push, "both": both}.get(SPEC["shape"])
if SPEC["speaks"] == "iperf3":
    endless = iperf3
if BULK:
    threading.Thread(target=windows, daemon=True).start()
for _ in range(SPEC["threads"]):
    threading.Thread(target=endless or work, daemon=True).start()
time.sleep(120)
