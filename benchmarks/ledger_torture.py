"""A ledger under fire: 2 000 fits by eight processes that are killed at random, full disks, damaged files.

python benchmarks/ledger_torture.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from _common import ROOT, parse_args, write_table

TESTS = ROOT / "tests"
FIRE = TESTS / "helpers" / "ledger_fire.py"
sys.path[:0] = [str(ROOT), str(TESTS)]

import helpers.ledger_fire as fire  # noqa: E402


def on_a_small_disk(folder, size):
    """`fire.fill_up` in a file system of its own; None where the system lets nobody mount one."""
    script = f"mount -t tmpfs -o size={size} none {folder} && exec {sys.executable} {FIRE} {folder}/a"
    return _filled(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script])


def with_a_limit(folder, size):
    """`fire.fill_up` where no file may be larger."""
    return _filled([sys.executable, str(FIRE), f"{folder}/limited.ledger", str(size)])


def _filled(command):
    path = {"PYTHONPATH": f"{ROOT}:{TESTS}", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=path)
    if done.returncode:
        print(f"not run: {' '.join(command)}")
        return None
    found = json.loads(done.stdout)
    print(found.pop("messages"))
    return found


def main():
    args = parse_args(
        __doc__,
        seeds=1,
        fits={"type": int, "default": 2000},
        flips={"type": int, "default": 1000},
        pause={"type": float, "default": 0.1, "help": "mean seconds between two kills"},
    )
    rows = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # a disk, not a memory file system
        for seed in range(args.seeds):
            (run := Path(folder) / f"kills{seed}").mkdir()
            counted = fire.kill_at_random(run, fits=args.fits, processes=8, seed=seed, pause=args.pause)
            rows += [("kills", what, number) for what, number in counted.items()]
        (small := Path(folder) / "small").mkdir()
        for kind, found in (
            ("full disk", on_a_small_disk(small, "500k")),
            ("limited file", with_a_limit(folder, 400_000)),
        ):
            rows += [(kind, what, number) for what, number in (found or {}).items()]
        for entries in (200, 700):
            path, copy = Path(folder) / f"{entries}.ledger", Path(folder) / "copy.ledger"
            fire.filled(path, entries)
            kinds = {"flipped bits": fire.flip_bits(path, copy, args.flips, seed=entries)}
            kinds |= fire.cut_and_zero(path, copy, seed=entries, cuts=50)
            for kind, counted in kinds.items():
                rows += [(f"{kind}, {entries} entries", what, number) for what, number in counted.items()]
    write_table("ledger_torture", ("test", "what", "number"), rows)


if __name__ == "__main__":
    main()
