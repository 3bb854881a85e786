"""Kills a rank of a live job at a random moment and starts it anew, as often as it is asked to:
every operation of the others ends, and they reach the new life (tests/programs/soak.c). Prints a
line for each, and how many were as they should be.

usage: kill_ranks.py OPENSPIN SOAK IMAGE COUNT [SEED]
"""
import glob
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

LAST = 2.0  # seconds of traffic


def processes(launcher):
    """The ranks of a launcher: {rank: (process, environment)}."""
    ranks = {}
    for path in glob.glob(f"/proc/{launcher}/task/*/children"):
        for process in open(path).read().split():
            try:
                pairs = open(f"/proc/{process}/environ", "rb").read().split(b"\0")
            except OSError:
                continue
            environment = dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)
            if b"OPENSPIN_RANK" in environment:
                ranks[int(environment[b"OPENSPIN_RANK"])] = int(process), environment
    return ranks


def kill_one(openspin, soak, image, seed):
    chance = random.Random(seed)
    ranks, transport = chance.choice((2, 3, 4)), "udp" if seed % 5 == 4 else "shm"
    victim, hpus = chance.randrange(ranks), chance.choice((0, 2))
    with tempfile.TemporaryDirectory() as folder:
        until = int(time.monotonic() + LAST) + 1
        own = f"127.203.{os.getpid() // 256 % 256}.{os.getpid() % 256}"
        environment = dict(os.environ, OPENSPIN_TRANSPORT=transport, OPENSPIN_HPUS=str(hpus),
                           SOAK_UNTIL=str(until),
                           OPENSPIN_INTERFACE=own if transport == "udp" else "")
        arguments = [soak, str(int(LAST)), str(seed), image, folder]
        job = subprocess.Popen([openspin, "launch", "-k", "-n", str(ranks), *arguments],
                               env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        found = {}
        while len(found) < ranks and job.poll() is None:
            time.sleep(0.01)
            found = processes(job.pid)
        after = chance.uniform(0.0, LAST - 0.5)
        time.sleep(0.3 + after)
        again = None
        if victim in found:
            process, its = found[victim]
            os.kill(process, signal.SIGKILL)
            while os.path.exists(f"/proc/{process}"):
                time.sleep(0.005)
            time.sleep(chance.choice((0, 0.05, 0.3)))
            again = subprocess.Popen(arguments, env={**its, b"SOAK_AGAIN": b"1"},
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = job.communicate(timeout=180)
            _, new_err = again.communicate(timeout=180) if again else ("", "no rank was there\n")
        except subprocess.TimeoutExpired:
            for process in (job, again):
                process.kill()
            print(f"seed {seed}: {ranks} ranks over {transport}: a rank hangs")
            return False
    told = [line for line in (err + new_err).splitlines() if "ended by signal 9" not in line]
    good = not told and again and again.returncode == 0
    undelivered = sum(map(int, re.findall(r"(\d+) undeliverable", out)))
    print(f"seed {seed}: {ranks} ranks over {transport}, {hpus} workers, rank {victim} killed "
          f"after {after:.2f} s: {'all went on' if good else 'wrong'}, {undelivered} undeliverable",
          flush=True)
    for line in told:
        print(f"    {line}")
    return good


def main():
    openspin, soak, image, count = sys.argv[1:5]
    first = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    good = sum(kill_one(openspin, soak, image, seed) for seed in range(first, first + int(count)))
    print(f"{good} of {count} as they should be")
    return good != int(count)


sys.exit(main())
