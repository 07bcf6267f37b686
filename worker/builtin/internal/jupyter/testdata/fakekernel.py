"""A kernel of one thread that behaves in the way its first argument names.

It executes nothing: an execution of "ask" asks for input and says what it got,
all others say their code, for as many seconds as stand in it.
"""
import hashlib, hmac, json, sys, time
import zmq

mode, file = sys.argv[1], sys.argv[2]
info = json.load(open(file))
if mode == "tcp-only" and info["transport"] != "tcp":
    sys.exit("only tcp is spoken here")
if mode == "silent":
    time.sleep(3600)

context = zmq.Context()
session = "session-of-the-kernel"
sent = 0


def bind(kind, name):
    socket = context.socket(kind)
    separator = ":" if info["transport"] == "tcp" else "-"
    socket.bind("%s://%s%s%d" % (info["transport"], info["ip"], separator, info[name + "_port"]))
    return socket


shell, control = bind(zmq.ROUTER, "shell"), bind(zmq.ROUTER, "control")
stdin, iopub, beat = bind(zmq.ROUTER, "stdin"), bind(zmq.PUB, "iopub"), bind(zmq.REP, "hb")


def sign(parts):
    mac = hmac.new(info["key"].encode(), digestmod=hashlib.sha256)
    for part in parts:
        mac.update(part)
    return mac.hexdigest().encode()


def send(socket, kind, parent, content, to=None):
    global sent
    sent += 1
    header = {"msg_id": "%s_%d" % (session, sent), "msg_type": kind, "session": session,
              "username": "kernel", "date": "2026-01-01T00:00:00Z", "version": "5.3"}
    parts = [json.dumps(p).encode() for p in (header, parent, {}, content)]
    address = [to] if to else [kind.encode()]
    if mode == "forged" and kind == "stream":
        wrong = [json.dumps(p).encode() for p in (header, parent, {}, {"name": "stdout", "text": "forged"})]
        socket.send_multipart(address + [b"<IDS|MSG>", sign(parts)] + wrong)
        socket.send_multipart(address + [b"<IDS|MSG>", b"", b"{}"])
    socket.send_multipart(address + [b"<IDS|MSG>", sign(parts)] + parts)


def receive(socket):
    frames = socket.recv_multipart()
    at = frames.index(b"<IDS|MSG>")
    parts = frames[at + 2:at + 6]
    assert frames[at + 1] == sign(parts), "signature of the client"
    header, _, _, content = (json.loads(p) for p in parts)
    return frames[0], header, content


def execute(to, header, content):
    code = content["code"]
    send(iopub, "execute_input", header, {"code": code, "execution_count": 1})
    text = code
    if code == "ask":
        send(stdin, "input_request", header, {"prompt": "? ", "password": False}, to)
        text = repr(receive(stdin)[2]["value"])
    elif code.isdigit():
        time.sleep(int(code))
    if mode == "closes":
        for socket in (shell, control, stdin, iopub, beat):
            socket.close(0)
        time.sleep(3600)
    send(iopub, "stream", header, {"name": "stdout", "text": text})
    if mode != "no-reply":
        send(shell, "execute_reply", header, {"status": "ok", "execution_count": 1}, to)


poller = zmq.Poller()
for socket in (shell, control, beat):
    poller.register(socket, zmq.POLLIN)
while True:
    ready = dict(poller.poll())
    if beat in ready:
        beat.send_multipart(beat.recv_multipart())
    if control in ready:
        to, header, content = receive(control)
        if header["msg_type"] == "shutdown_request":
            send(control, "shutdown_reply", header, {"status": "ok", "restart": content["restart"]}, to)
            sys.exit(0)
    if shell in ready:
        to, header, content = receive(shell)
        send(iopub, "status", header, {"execution_state": "busy"})
        if header["msg_type"] == "kernel_info_request":
            send(shell, "kernel_info_reply", header, {"status": "ok", "protocol_version": "5.3"}, to)
        else:
            execute(to, header, content)
        if mode != "no-idle" or header["msg_type"] == "kernel_info_request":
            send(iopub, "status", header, {"execution_state": "idle"})
