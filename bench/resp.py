#!/usr/bin/env python3
"""CL.THROTTLE on core 0 beside Redis's INCR on the same core, each loaded by redis-benchmark on core 1 with pipelines of 16,
over 100,000 keys at random.
"""
import subprocess, sys, tempfile

from pinned import rounds, start_redis, start_tollgate, stop, table

OURS, THEIRS = "tollgate CL.THROTTLE", "redis INCR"
REQUESTS = 2_000_000
COMMANDS = {OURS: ["CL.THROTTLE", "key:__rand_int__", "15", "30", "60"], THEIRS: ["INCR", "key:__rand_int__"]}


def load(name, address):
    port = address.rsplit(":", 1)[1]
    command = ["taskset", "-c", "1", "redis-benchmark", "-p", port, "-P", "16", "-c", "50", "-r", "100000", "-n", str(REQUESTS), "--csv", *COMMANDS[name]]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    try:
        # The line of figures: name, requests a second, and six latencies.
        return REQUESTS, float(output.strip().splitlines()[-1].rsplit('","', 7)[1])
    except (IndexError, ValueError):
        sys.exit(f"the load was not answered:\n{output}")


def main():
    with tempfile.TemporaryDirectory() as directory:
        servers = {THEIRS: start_redis(directory, "0"), OURS: start_tollgate(directory, "data", "resp", "--resp", "127.0.0.1:0")}
        try:
            rate, cost = rounds(servers, load)
        finally:
            stop(process for process, _ in servers.values())
    table("one core each, pipelines of 16", OURS, rate, cost)


main()
