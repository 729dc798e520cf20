"""What all replays of a run have looked at, in however many processes they ran side by side."""

#: What the replays of one turn must look at, a third of all.
LEAST_NEIGHBOURS, LEAST_DRAWS = 3_000, 30_000


class ReplayTotals:
    """Replays, draws, neighbours and the worst share of a sensitivity, by estimator.

    A plugin of the process that gathers the reports of tests.
    """

    def __init__(self):
        self.lines, self.n_cases, self.passed = {}, 0, 0

    def pytest_runtest_logreport(self, report):
        if report.when != "call":
            return
        found = [record for name, record in report.user_properties if name == "replay"]
        self.passed += bool(found) and report.passed
        for self.n_cases, name, draws, neighbours, worst in found:
            line = self.lines.setdefault(name, {"replays": 0, "draws": 0, "neighbours": 0, "worst": {}})
            line["replays"] += 1
            line["draws"] += draws
            line["neighbours"] += neighbours
            for kind, share in worst.items():
                line["worst"][kind] = max(share, line["worst"].get(kind, 0.0))

    def sum(self, what):
        return sum(line[what] for line in self.lines.values())

    def too_little(self):
        """Whether all replays were made, and yet have not seen enough."""
        return self.n_cases and self.passed >= self.n_cases and not self.enough()

    def enough(self):
        return self.sum("neighbours") >= LEAST_NEIGHBOURS and self.sum("draws") >= LEAST_DRAWS

    def pytest_sessionfinish(self, session, exitstatus):
        if self.too_little() and exitstatus == 0:
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter):
        if not self.lines:
            return
        write = terminalreporter.write_line
        terminalreporter.section("replays")
        write("estimator: replays, draws, neighbours, worst distance / sensitivity by kind of draw")
        for name, line in sorted(self.lines.items()):
            worst = ", ".join(f"{kind} {share:.9g}" for kind, share in sorted(line["worst"].items()))
            write(f"{name}: {line['replays']}, {line['draws']}, {line['neighbours']}, {worst}")
        write(f"in all: {', '.join(str(self.sum(what)) for what in ('replays', 'draws', 'neighbours'))}")
        if self.too_little():
            write(f"FAILED: at least {LEAST_NEIGHBOURS} neighbours and {LEAST_DRAWS} draws must be looked at")
