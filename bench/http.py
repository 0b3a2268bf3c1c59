#!/usr/bin/env python3
"""/v1/check beside a do-nothing axum handler and nginx's limit_req, each on core 0, the load on core 1. With `fleet`:
/v1/check on Redis beside /v1/check on its own, by ten callers, with Redis on core 1 too.

Rounds take turns, and the median counts. CPU time for each request is read from the server's own
accounting, so that a load generator that can't keep up does not hide a difference.
"""
import os, re, signal, socket, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
RELEASE = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release")
FLEET = sys.argv[1:] == ["fleet"]
CALLERS = 10 if FLEET else 1000
OURS = "tollgate /v1/check on Redis" if FLEET else "tollgate /v1/check"
ROUNDS, SECONDS, CONNECTIONS = int(os.environ.get("ROUNDS", 5)), 3, 32


def start(command):
    process = subprocess.Popen(["taskset", "-c", "0", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    address = re.search(r"http=(\S+)", process.stdout.readline()).group(1)
    return process, address


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


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start_redis(directory):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(["taskset", "-c", "1", "redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", directory], stdout=subprocess.DEVNULL)
    while subprocess.run(["redis-cli", "-p", str(port), "PING"], capture_output=True).stdout != b"PONG\n":
        time.sleep(0.02)
    return process, f"redis://127.0.0.1:{port}"


def start_tollgate(directory, name, *options):
    return start([f"{RELEASE}/tollgate", "serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                  "--data-dir", os.path.join(directory, name), "--policies", os.path.join(HERE, "http.yaml"), "--threads", "1", *options])


def load(address, seconds):
    command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", os.path.join(HERE, "http.lua"), f"http://{address}", "--", str(CALLERS)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        sys.exit(f"the load was not answered:\n{output}")
    requests = int(re.search(r"(\d+) requests in", output).group(1))
    return requests, float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))


def main():
    with tempfile.TemporaryDirectory() as directory:
        others = []
        if FLEET:
            redis, address = start_redis(directory)
            others.append(redis)
            servers = {"tollgate /v1/check on its own": start_tollgate(directory, "alone"), OURS: start_tollgate(directory, "shared", "--redis", address)}
        else:
            servers = {"axum, parses and does nothing": start([f"{RELEASE}/tollgate-bench", "baseline"]), OURS: start_tollgate(directory, "alone")}
            if subprocess.run(["which", "nginx"], capture_output=True).returncode == 0:
                servers["nginx limit_req, two zones"] = start_nginx(directory)
        try:
            rates, costs = {name: [] for name in servers}, {name: [] for name in servers}
            for round_number in range(ROUNDS + 1):
                for name, (process, address) in servers.items():
                    before = cpu_seconds(process.pid)
                    requests, rate = load(address, SECONDS)
                    if round_number > 0:
                        rates[name].append(rate)
                        costs[name].append((cpu_seconds(process.pid) - before) / requests * 1e6)
        finally:
            for process in [process for process, _ in servers.values()] + others:
                process.send_signal(signal.SIGTERM)
                process.wait()
    print(f"\n{'one core each, 32 connections':<34} {'requests/s':>12} {'CPU us each':>12}")
    rate = {name: statistics.median(values) for name, values in rates.items()}
    cost = {name: statistics.median(values) for name, values in costs.items()}
    for name in servers:
        print(f"{name:<34} {rate[name]:>12,.0f} {cost[name]:>12.2f}")
    for name in servers:
        if name != OURS:
            print(f"{OURS} against {name.split(',')[0]}: {rate[OURS] / rate[name]:.2f} x its throughput, {cost[name] / cost[OURS]:.2f} x for the same CPU time")


main()
