#!/usr/bin/env python3
"""Over gRPC, each server on core 0 with one thread, the load (h2load) on core 1: `ShouldRateLimit` with a stack of three beside
a tonic server of the same service that does nothing and one around the limitador crate; then `CheckLimits` with batches of 64
beside `CheckLimit`.
"""
import os, re, subprocess, sys, tempfile

from pinned import HERE, RELEASE, SECONDS, rounds, start, start_tollgate, stop, table

CONNECTIONS, STREAMS, BATCH = 8, 16, 64
ENVOY = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
OWN = "/tollgate.v1.RateLimiter/"


def field(number, value):
    """A text or message in protobuf, below 16 KiB."""
    length = len(value)
    return bytes([number << 3 | 2]) + (bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])) + value


def descriptor(caller):
    entries = [("org", "acme"), ("app", "web"), ("key", f"key-{caller:08}")]
    return field(1, b"bench") + field(2, b"".join(field(1, field(1, key.encode()) + field(2, value.encode())) for key, value in entries))


def check(caller):
    return field(1, b"acme") + field(2, b"web") + field(3, f"key-{caller:08}".encode())


def write(directory, name, message):
    path = os.path.join(directory, name)
    with open(path, "wb") as file:
        file.write(b"\0" + len(message).to_bytes(4, "big") + message)
    return path


def load(address, path, data):
    command = ["taskset", "-c", "1", "h2load", "-D", str(SECONDS), "-c", str(CONNECTIONS), "-m", str(STREAMS), "-t", "1", "-d", data,
               "-H", "content-type: application/grpc", "-H", "te: trailers", f"http://{address}{path}"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    done = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", output)
    if not done or int(done.group(2)) or int(done.group(3)):
        sys.exit(f"the load was not answered:\n{output}")
    return int(done.group(1)), float(re.search(r"([\d.]+) req/s", output).group(1))


def main():
    with tempfile.TemporaryDirectory() as directory:
        bench = f"{RELEASE}/tollgate-bench"
        ours = "tollgate ShouldRateLimit"
        tollgate = start_tollgate(directory, "data", "grpc", "--policies", os.path.join(HERE, "grpc.yaml"))
        servers = {"tonic, parses and does nothing": start([bench, "grpc-nothing"], "grpc"), ours: tollgate,
                   "a tonic server around limitador, in memory": start([bench, "grpc-limitador"], "grpc")}
        try:
            question = write(directory, "question", descriptor(7))
            rate, cost = rounds(servers, lambda _, address: load(address, ENVOY, question))
            table(f"{CONNECTIONS} connections, {STREAMS} streams each", ours, rate, cost)
            one = write(directory, "one", check(7))
            many = write(directory, "many", b"".join(field(1, check(caller)) for caller in range(BATCH)))
            unary, batch = "CheckLimit", f"CheckLimits of {BATCH}, decisions"

            def ask(name, address):
                if name == unary:
                    return load(address, OWN + "CheckLimit", one)
                requests, rate = load(address, OWN + "CheckLimits", many)
                return requests * BATCH, rate * BATCH

            rate, cost = rounds({unary: tollgate, batch: tollgate}, ask)
            table("decisions over gRPC", batch, rate, cost)
        finally:
            stop(process for process, _ in servers.values())


main()
