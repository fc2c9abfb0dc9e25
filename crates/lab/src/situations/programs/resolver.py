"""A resolver that answers every name with one address, as late as its file says. Ends by itself after two minutes."""

import json, socket, struct, sys, threading, time

SWITCH, LOG = sys.argv[1:3]


def late(data, peer):
    try:
        seconds = json.load(open(SWITCH)).get("resolver", 0)
    except (OSError, ValueError):
        seconds = 0
    time.sleep(seconds)
    answer = data[:2] + b"\x81\x80" + data[4:6] + b"\0\1\0\0\0\0" + data[12:]
    server.sendto(answer + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton("10.9.0.2"), peer)
    if seconds:
        with open(LOG, "a") as log:
            log.write(json.dumps({"t": time.monotonic(), "what": "resolver", "s": seconds}) + "\n")


server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("0.0.0.0", 53))
server.settimeout(0.5)
end = time.monotonic() + 120
while time.monotonic() < end:
    try:
        data, peer = server.recvfrom(512)
    except OSError:
        continue
    threading.Thread(target=late, args=(data, peer), daemon=True).start()
