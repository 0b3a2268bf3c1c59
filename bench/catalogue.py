#!/usr/bin/env python3
"""A large catalogue in a real database: how long a node takes to start, what it holds in memory, how soon a
change on one node decides on the other, and what a hundred policy writes a second cost those who ask for decisions.

    bench/catalogue.py [ORGS] [PART…]

ORGS have ten overrides each: 100,000 unless told otherwise, and ten times that for the last row of `memory`. The parts
are `propagation`, `sqlite` (writes to the one node that is asked), `postgres` (writes to another node) and `memory`; all
of them unless told otherwise.
"""
import sys

# Its neighbour http.py would be taken for the module of that name.
sys.path.pop(0)
import glob, http.client, json, os, re, shutil, signal, socket, sqlite3, statistics, subprocess, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
RELEASE = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release")
POSTGRES = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
TOKEN = "the token of every node of this benchmark"
SCALE = [int(given) for given in sys.argv[1:] if given.isdigit()]
PARTS = [given for given in sys.argv[1:] if not given.isdigit()] or ["propagation", "sqlite", "postgres", "memory"]
ORGS = SCALE[0] if SCALE else 100_000
ACTIVE, CHANGES, ROUNDS, SECONDS = 10_000, 200, 7, 3
# The node that is measured has a core of its own, all else the other.
MEASURED, OTHERS = 0, 1
# What is written: a field of a policy, and for whom of those who ask that makes a difference.
WRITES = [
    ("key", "limit", "the limit of a policy that no override is for"),
    ("app", "limit", "the limit of a policy, for which each busy org has ten of its own"),
    ("app", "burst", "the burst of a policy, which ten overrides of each busy org take over"),
]


def as_postgres(command):
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else command


class Postgres:
    """A server of its own, in a directory that goes away with it."""

    def __init__(self, directory):
        self.data = os.path.join(directory, "data")
        os.mkdir(directory)
        if os.geteuid() == 0:
            shutil.chown(directory, "postgres")
        binaries = POSTGRES[-1]
        run(as_postgres([f"{binaries}/initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync", "--pgdata", self.data]))
        self.port = free_port()
        command = [f"{binaries}/postgres", "-D", self.data, "-p", str(self.port), "-k", "", "-c", "listen_addresses=127.0.0.1", "-c", "max_wal_size=4GB"]
        self.process = subprocess.Popen(as_postgres(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.psql = [f"{binaries}/psql", "--no-psqlrc", "-qAt", "--set=ON_ERROR_STOP=1"]
        until(lambda: subprocess.run([*self.psql, "-c", "SELECT 1", self.url("postgres")], capture_output=True).returncode == 0)

    def url(self, name):
        return f"postgres://postgres@127.0.0.1:{self.port}/{name}"

    def sql(self, url, statement):
        run([*self.psql, "-c", statement, url])

    def stop(self):
        pid = int(open(os.path.join(self.data, "postmaster.pid")).readline())
        os.kill(pid, signal.SIGINT)
        self.process.wait()


class Node:
    def __init__(self, database, core=None):
        self.data = tempfile.mkdtemp(prefix="tollgate-bench-")
        command = [f"{RELEASE}/tollgate", "serve", "--database", database, "--admin-token", TOKEN, "--data-dir", self.data]
        command += ["--threads", "1", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        if core is not None:
            command = ["taskset", "-c", str(core), *command]
        started = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        self.took = time.monotonic() - started
        addresses = dict(part.split("=") for part in line.split()[2:])
        self.http, self.admin = addresses["http"], addresses["admin"]
        self.connection = http.client.HTTPConnection(self.http)

    def ask(self, method, target, body=None):
        connection = http.client.HTTPConnection(self.admin)
        text = None if body is None else json.dumps(body)
        connection.request(method, target, text, {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            sys.exit(f"{method} {target}: {answer.status} {text}")
        return json.loads(text) if text else None

    def check(self, body):
        self.connection.request("POST", "/v1/check", json.dumps(body))
        return json.loads(self.connection.getresponse().read())

    def cpu_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self):
        status = open(f"/proc/{self.process.pid}/status").read()
        return int(re.search(r"RssAnon:\s+(\d+)", status).group(1)) * 1024

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        shutil.rmtree(self.data)


def run(command):
    ran = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        sys.exit(f"{command[0]} failed: {ran.stderr}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(is_so):
    deadline = time.monotonic() + 60
    while not is_so():
        if time.monotonic() > deadline:
            sys.exit("waited in vain")
        time.sleep(0.001)


def make_tables(database):
    """By a node; the rows come by SQL: a million by API would take an hour."""
    node = Node(database)
    node.ask("PUT", "/v1/tiers/gold", {"tier": "gold"})
    for scope, limit in [("org", 1_000_000_000), ("app", 100_000_000), ("key", 10_000_000)]:
        node.ask("PUT", "/v1/ratelimit/policies", {"id": scope, "scope": scope, "algorithm": "token_bucket", "limit": limit, "window": "1s"})
    node.stop()


def fill(postgres, name, orgs):
    postgres.sql(postgres.url("postgres"), f"CREATE DATABASE {name}")
    url = postgres.url(name)
    make_tables(url)
    number = "lpad(org::text, 8, '0')"
    postgres.sql(url, f"""INSERT INTO tollgate_entries SELECT 'org', '', 'org-' || {number},
        json_build_object('orgId', 'org-' || {number}, 'tier', 'gold'), 1 FROM generate_series(1, {orgs}) org""")
    postgres.sql(url, f"""INSERT INTO tollgate_entries SELECT 'override', 'org-' || {number}, lpad(app::text, 20, '0'),
        json_build_object('orgId', 'org-' || {number}, 'appId', 'app-' || app, 'policyId', 'app', 'limit', 1000000 + app,
        'reason', 'agreed by contract'), 1 FROM generate_series(1, {orgs}) org, generate_series(0, 9) app""")
    postgres.sql(url, "VACUUM ANALYZE tollgate_entries")
    return url


def fill_file(directory, orgs):
    path = os.path.join(directory, "catalogue.sqlite")
    make_tables(f"sqlite:{path}")
    database = sqlite3.connect(path)
    entry = "INSERT INTO tollgate_entries (kind, org, id, body, revision) VALUES (?, ?, ?, ?, 1)"
    for org in (f"org-{number:08}" for number in range(1, orgs + 1)):
        database.execute(entry, ("org", "", org, json.dumps({"orgId": org, "tier": "gold"})))
        bodies = [{"orgId": org, "appId": f"app-{app}", "policyId": "app", "limit": 1_000_000 + app, "reason": "agreed by contract"} for app in range(10)]
        database.executemany(entry, [("override", org, f"{app:020}", json.dumps(body)) for app, body in enumerate(bodies)])
    database.commit()
    database.close()
    return f"sqlite:{path}"


def wake(node, orgs):
    """Asks for a share of the orgs once, and for one of them with an override."""
    before = node.check({"orgId": "org-00000007", "appId": "app-3", "cost": 0})
    if [limit["limit"] for limit in before["limits"]] != [1_000_000_000, 1_000_003]:
        sys.exit(f"not the limits that were set: {before}")
    for org in range(1, orgs + 1, max(1, orgs // ACTIVE)):
        node.check({"orgId": f"org-{org:08}", "appId": "app-3"})


def memory(url, orgs):
    node = Node(url)
    idle = node.resident()
    wake(node, orgs)
    active = node.resident()
    print(f"{orgs * 10:>12,} overrides: started in {node.took:6.2f} s, {idle / 1e6:7.1f} MB idle, {active / 1e6:7.1f} MB with {ACTIVE:,} orgs active")
    node.stop()
    return active


def propagation(a, b):
    times = []
    for change in range(CHANGES):
        limit = 2_000_000 + change
        a.ask("POST", "/v1/orgs/org-00000042/ratelimit/overrides", {"policyId": "app", "limit": limit})
        written = time.monotonic()
        until(lambda: b.check({"orgId": "org-00000042", "appId": "app-x", "cost": 0})["limits"][1]["limit"] == limit)
        times.append((time.monotonic() - written) * 1e3)
    times.sort()
    print(f"change to decision on another node, {CHANGES} changes: median {times[CHANGES // 2]:.1f} ms, p99 {times[CHANGES * 99 // 100 - 1]:.1f} ms, most {times[-1]:.1f} ms")


class Writer(threading.Thread):
    """A hundred policy writes a second, while there are any to make."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.going, self.written, self.ends, self.what = node, threading.Event(), 0, False, WRITES[0]

    def run(self):
        connection = http.client.HTTPConnection(self.node.admin)
        next_at = time.monotonic()
        while not self.ends:
            if not self.going.wait(0.1):
                next_at = time.monotonic()
                continue
            policy, field, _ = self.what
            body = {"id": policy, "scope": policy, "algorithm": "token_bucket", "limit": 100_000_000, "window": "1s"}
            body[field] = 100_000_000 + self.written
            connection.request("PUT", "/v1/ratelimit/policies", json.dumps(body), {"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            if answer.status >= 300:
                sys.exit(f"a write failed: {answer.status} {answer.read()}")
            answer.read()
            self.written += 1
            # What is late is not made up for: a hundred a second are the most.
            next_at = max(next_at + 0.01, time.monotonic())
            time.sleep(max(0.0, next_at - time.monotonic()))


def load(node):
    """Checks a second, how many that were, and the node's CPU seconds."""
    # Whoever writes comes before the load that shares its core.
    command = ["nice", "-n", "15", "taskset", "-c", str(OTHERS), "wrk", "-t1", "-c32", "--timeout", "30s", f"-d{SECONDS}s", "-s", os.path.join(HERE, "catalogue.lua"), f"http://{node.http}"]
    before = node.cpu_seconds()
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = node.cpu_seconds() - before
    if "Non-2xx" in output or "Socket errors" in output:
        sys.exit(f"the load was not answered:\n{output}")
    requests = int(re.search(r"(\d+) requests in", output).group(1))
    return float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1)), requests, used


def under_writes(node, writes_to, where):
    """Each kind of write in turn with none, so that what else the machine does meets all of them."""
    writer = Writer(writes_to)
    writer.start()
    load(node)
    ran = {what: [] for what in [None, *WRITES]}
    for _ in range(ROUNDS):
        for what in ran:
            before = writer.written
            if what:
                writer.what = what
                writer.going.set()
            rate, checks, cpu = load(node)
            writer.going.clear()
            ran[what].append((rate, cpu / checks, checks, cpu, writer.written - before))
    writer.ends = True
    writer.join()
    quiet, quiet_cpu = statistics.median(run[0] for run in ran[None]), statistics.median(run[1] for run in ran[None])
    print(f"\n{where}\n  {quiet:>8,.0f} checks/s, {quiet_cpu * 1e6:5.2f} CPU s for a million: no writes")
    for what in WRITES:
        busy, cpu = statistics.median(run[0] for run in ran[what]), statistics.median(run[1] for run in ran[what])
        # What a write costs does not depend on how many checks the load got through beside it.
        each = statistics.median((cpu - checks * quiet_cpu) / writes for (_, _, checks, cpu, writes) in ran[what])
        rate = statistics.median(run[4] for run in ran[what]) / SECONDS
        print(f"  {busy:>8,.0f} checks/s, {cpu * 1e6:5.2f} CPU s for a million: {rate:.0f} writes/s of {what[2]}")
        print(f"           {busy / quiet:.2f} x; {each * 1e3:.2f} CPU ms a write, so {1 - 100 * each:.2f} x of a core at a hundred a second")


def one_node(directory):
    node = Node(fill_file(directory, ORGS), core=MEASURED)
    under_writes(node, node, "SQLite, written to by the node that is asked")
    node.stop()


def fleet(url):
    writes_to, node = Node(url), Node(url, core=MEASURED)
    under_writes(node, writes_to, "PostgreSQL, written to by another node")
    writes_to.stop()
    node.stop()


def main():
    os.sched_setaffinity(0, {OTHERS})
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        if "sqlite" in PARTS:
            one_node(directory)
        if PARTS == ["sqlite"]:
            return
        postgres = Postgres(os.path.join(directory, "postgres"))
        try:
            url = fill(postgres, "large", ORGS)
            if "propagation" in PARTS:
                a, b = Node(url), Node(url)
                propagation(a, b)
                a.stop()
                b.stop()
            if "postgres" in PARTS:
                fleet(url)
            if "memory" in PARTS:
                million = memory(url, ORGS)
                larger = memory(fill(postgres, "larger", ORGS * 10), ORGS * 10)
                print(f"resident memory, ten times the overrides: {larger / million:.2f} x")
        finally:
            postgres.stop()


main()
