"""Servers on core 0, their load on core 1, in rounds that take turns. CPU time for each request is read from a server's
own accounting, so that a load generator that can't keep up does not hide a difference."""
import os, re, signal, socket, statistics, subprocess, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
RELEASE = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release")
ROUNDS, SECONDS = int(os.environ.get("ROUNDS", 5)), 3


def start(command, name):
    """Starts a server that says `NAME=ADDRESS` in its first line."""
    process = subprocess.Popen(["taskset", "-c", "0", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return process, re.search(rf"\b{name}=(\S+)", process.stdout.readline()).group(1)


def start_redis(directory, core):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(["taskset", "-c", core, "redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", directory], stdout=subprocess.DEVNULL)
    while subprocess.run(["redis-cli", "-p", str(port), "PING"], capture_output=True).stdout != b"PONG\n":
        time.sleep(0.02)
    return process, f"127.0.0.1:{port}"


def start_tollgate(directory, name, address, *options):
    command = [f"{RELEASE}/tollgate", "serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0",
               "--data-dir", os.path.join(directory, name), "--threads", "1", *options]
    return start(command, address)


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stop(processes):
    for process in processes:
        process.send_signal(signal.SIGTERM)
        process.wait()


def rounds(servers, load):
    """The median requests a second and CPU microseconds for each, by server. `load` takes a server's name and address, and
    says how many requests were answered and how many that is a second."""
    rates, costs = {name: [] for name in servers}, {name: [] for name in servers}
    for number in range(ROUNDS + 1):
        for name, (process, address) in servers.items():
            before = cpu_seconds(process.pid)
            requests, rate = load(name, address)
            if number > 0:
                rates[name].append(rate)
                costs[name].append((cpu_seconds(process.pid) - before) / requests * 1e6)
    median = lambda values: {name: statistics.median(values[name]) for name in servers}
    return median(rates), median(costs)


def table(title, ours, rate, cost):
    print(f"\n{title:<44} {'requests/s':>12} {'CPU us each':>12}")
    for name in rate:
        print(f"{name:<44} {rate[name]:>12,.0f} {cost[name]:>12.2f}")
    for name in rate:
        if name != ours:
            print(f"{ours} against {name.split(',')[0]}: {rate[ours] / rate[name]:.2f} x its throughput, {cost[name] / cost[ours]:.2f} x for the same CPU time")
