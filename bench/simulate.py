#!/usr/bin/env python3
"""How many recorded requests `tollgate simulate` replays a second on one core, decisions written out."""
import json, os, random, subprocess, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
RELEASE = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release")
COUNT, ROUNDS = 1_000_000, 5

with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "requests.jsonl")
    random.seed(1)
    at = 1721001600000
    with open(path, "w") as file:
        for n in range(COUNT):
            at += random.randint(0, 1)
            request = {"at": at, "orgId": "acme", "appId": f"app-{n % 20}", "keyId": f"key-{random.randint(0, 99999)}", "endpoint": "POST /v1/records"}
            file.write(json.dumps(request, separators=(",", ":")) + "\n")
    policies = os.path.join(HERE, "http.yaml")
    command = ["taskset", "-c", "0", f"{RELEASE}/tollgate", "simulate", "--policies", policies, "--requests", path]
    times = []
    for _ in range(ROUNDS):
        with open(os.path.join(directory, "decisions"), "w") as out:
            began = time.monotonic()
            subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True)
            times.append(time.monotonic() - began)
    print(f"\nsimulate, three levels, one core: {COUNT / sorted(times)[len(times) // 2]:,.0f} requests replayed a second")
