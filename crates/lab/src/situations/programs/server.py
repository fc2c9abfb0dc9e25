"""A server as somebody writes it in a day: HTTP, or lines where it speaks first. What it does wrong is in a file that
it reads again whenever that changes; what it waited by itself it writes down, a line of JSON each."""

import json, os, random, select, socket, ssl, struct, sys, threading, time

PORT, SPEAKS, SWITCH, LOG, CERT, BACKLOG, NAME = sys.argv[1:8]
lock = threading.Lock()
log = open(LOG, "a", buffering=1)


class Wrong:
    """What it does wrong, as the file says now."""

    def __init__(self):
        self.seen, self.all = None, {}

    def get(self, key, default=None):
        try:
            now = os.stat(SWITCH).st_mtime_ns
        except OSError:
            return default
        if now != self.seen:
            try:
                self.all = json.load(open(SWITCH))
                self.seen = now
            except ValueError:
                pass
        of = self.all.get("only")
        return default if of is not None and of != NAME else self.all.get(key, default)

    def hits(self, key):
        one_in = self.get(key, 0)
        return bool(one_in) and random.randrange(one_in) == 0


wrong = Wrong()


def note(what, seconds):
    with lock:
        log.write(json.dumps({"t": time.monotonic(), "what": what, "s": round(seconds, 4)}) + "\n")


def think(key="delay"):
    seconds = wrong.get(key, 0)
    if seconds and (key != "delay" or random.randrange(wrong.get("every", 1)) == 0):
        time.sleep(seconds)
        note(key, seconds)


class Gone(Exception):
    pass


def answer(conn, head, body):
    if wrong.get("cork"):
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    if wrong.get("split"):
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        conn.sendall(head)
        half = len(body) // 2
        conn.sendall(body[:half])
        conn.sendall(body[half:])
    else:
        conn.sendall(head + body)


def reset(conn):
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    note("reset", 0)
    raise Gone


def head_of(conn, buffered):
    while b"\r\n\r\n" not in buffered:
        idle = wrong.get("idle")
        if not buffered:
            began = time.monotonic()
            while not (getattr(conn, "pending", int)() or select.select([conn], [], [], 0.05)[0]):
                if idle and time.monotonic() - began > idle:
                    note("idle", idle)
                    raise Gone
        got = conn.recv(65536)
        if not got:
            raise Gone
        buffered += got
    head, rest = buffered.split(b"\r\n\r\n", 1)
    return head, rest


def http(conn):
    rest = b""
    while True:
        head, rest = head_of(conn, rest)
        method, path = head.split(b" ", 2)[:2]
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, value = line.split(b":", 1)
            if name.lower() == b"content-length":
                length = int(value)
        if length and wrong.hits("unread"):
            conn.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            note("unread", 0)
            time.sleep(0.02)
            raise Gone
        while len(rest) < length:
            got = conn.recv(1 << 20)
            if not got:
                raise Gone
            length, rest = length - len(rest), got
        rest = rest[length:]
        think()
        if wrong.hits("reset"):
            reset(conn)
        if path == b"/pieces":
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
            for _ in range(5):
                conn.sendall(b"x" * 1000)
                time.sleep(0.005)
            continue
        size = int(path[1:]) if path[1:].isdigit() else 2
        answer(conn, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size, b"x" * size)


def lines(conn):
    think("greeting")
    conn.sendall(b"220 ready\r\n")
    file = conn.makefile("rb")
    for line in file:
        words = line.split()
        if words[0] == b"push":
            while True:
                time.sleep(0.05)
                think()
                conn.sendall(b"event %d\r\n" % time.monotonic_ns() + b"x" * 400 + b"\r\n")
        if words[0] == b"both":
            threading.Thread(target=drain, args=(conn,), daemon=True).start()
            while True:
                conn.sendall(b"x" * 65536)
        if words[0] == b"many":
            threading.Thread(target=late, args=(conn, words[1]), daemon=True).start()
            continue
        think()
        if wrong.hits("reset"):
            reset(conn)
        answer(conn, b"250 ok ", b"x" * int(words[1]) + b"\r\n")


def late(conn, word):
    time.sleep(random.random() * 0.01)
    think()
    try:
        conn.sendall(b"250 " + word + b" " + b"x" * 300 + b"\r\n")
    except OSError:
        pass


def drain(conn):
    try:
        while conn.recv(1 << 20):
            pass
    except OSError:
        pass


def serve(conn):
    try:
        if SPEAKS == "tls":
            conn = context.wrap_socket(conn, server_side=True)
        (lines if SPEAKS == "lines" else http)(conn)
    except (Gone, OSError, ValueError, IndexError):
        pass
    finally:
        conn.close()


if SPEAKS == "tls":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERT)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("0.0.0.0", int(PORT)))
listener.listen(int(BACKLOG))
listener.settimeout(0.1)
end = time.monotonic() + 120
while time.monotonic() < end:
    if not wrong.get("accept", True):
        time.sleep(0.05)
        continue
    try:
        conn, _ = listener.accept()
    except OSError:
        # None came, or it has no descriptor for it.
        time.sleep(0.01)
        continue
    conn.settimeout(None)
    small = wrong.get("sndbuf")
    if small:
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, small)
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=(conn,), daemon=True).start()
