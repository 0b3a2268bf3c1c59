#!/usr/bin/env python3
"""/v1/check beside a do-nothing axum handler and nginx's limit_req, each on core 0, the load on core 1. With `fleet`:
/v1/check on Redis beside /v1/check on its own, by ten callers, with Redis on core 1 too.
"""
import os, re, subprocess, sys, tempfile

from pinned import HERE, RELEASE, SECONDS, rounds, start, start_redis, start_tollgate, stop, table

FLEET = sys.argv[1:] == ["fleet"]
CALLERS = 10 if FLEET else 1000
OURS = "tollgate /v1/check on Redis" if FLEET else "tollgate /v1/check"
CONNECTIONS = 32


def start_nginx(directory):
    port = 18733
    with open(os.path.join(directory, "nginx.conf"), "w") as file:
        file.write(f"""
daemon off; master_process off; worker_processes 1; pid {directory}/nginx.pid; error_log /dev/null crit;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000; client_body_temp_path {directory}/body;
    limit_req_zone $http_x_key zone=key:10m rate=1000000r/s;
    limit_req_zone $server_name zone=server:10m rate=1000000r/s;
    server {{
        listen 127.0.0.1:{port};
        location /v1/check {{ limit_req zone=key burst=1000000 nodelay; limit_req zone=server burst=1000000 nodelay; return 200; }}
    }}
}}
""")
    process = subprocess.Popen(["taskset", "-c", "0", "nginx", "-c", f"{directory}/nginx.conf", "-p", directory], stderr=subprocess.DEVNULL)
    for _ in range(100):
        if subprocess.run(["curl", "-s", "-o", "/dev/null", f"http://127.0.0.1:{port}/v1/check"]).returncode == 0:
            break
    return process, f"127.0.0.1:{port}"


def start_ours(directory, name, *options):
    return start_tollgate(directory, name, "http", "--policies", os.path.join(HERE, "http.yaml"), *options)


def load(_, address):
    command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", os.path.join(HERE, "http.lua"), f"http://{address}", "--", str(CALLERS)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        sys.exit(f"the load was not answered:\n{output}")
    requests = int(re.search(r"(\d+) requests in", output).group(1))
    return requests, float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))


def main():
    with tempfile.TemporaryDirectory() as directory:
        others = []
        if FLEET:
            redis, address = start_redis(directory, "1")
            others.append(redis)
            servers = {"tollgate /v1/check on its own": start_ours(directory, "alone"), OURS: start_ours(directory, "shared", "--redis", f"redis://{address}")}
        else:
            servers = {"axum, parses and does nothing": start([f"{RELEASE}/tollgate-bench", "baseline"], "http"), OURS: start_ours(directory, "alone")}
            if subprocess.run(["which", "nginx"], capture_output=True).returncode == 0:
                servers["nginx limit_req, two zones"] = start_nginx(directory)
        try:
            rate, cost = rounds(servers, load)
        finally:
            stop([process for process, _ in servers.values()] + others)
    table("one core each, 32 connections", OURS, rate, cost)


main()
