"""The plan of a run, and the report of its outcome."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.chaos.faults.injection import FaultPlan
from tests.chaos.judges.history import History
from tests.chaos.tally import RunTally


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The parameters of a run. `pause` and `disturb_pause` are averages in seconds."""

    seconds: float
    """The duration of the load."""
    seed: int
    clients: int = 24
    servers: int = 3
    pause: float = 1.0
    """Between two actions of one device."""
    disturb_pause: float = 20.0
    """Between two disturbances of one device: lost connections, stalls, reinstalls."""
    large_group: int = 40
    clocks: tuple[float, ...] = (0.0, 7.0, -11.0)
    """Seconds by which the servers' clocks are ahead, in turn."""
    faults: FaultPlan = field(default_factory=FaultPlan)
    script: tuple[tuple[str, float], ...] = ()
    """Faults with their durations, one after another, instead of random ones."""
    patience: float = 40.0
    """Seconds after the load until everything has to be right."""
    workspaces: int = 2
    changes_rights: bool = True
    """False: nobody joins or leaves workspaces, no rights in channels change, and nobody leaves groups."""

    @property
    def people(self) -> int:
        return max(3, self.clients * 2 // 5)


@dataclass
class RunReport:
    """The outcome of a run."""

    plan: RunPlan
    tally: RunTally
    history: History
    figures: dict[str, str] = field(default_factory=dict)
    violations: Counter[str] = field(default_factory=Counter)
    recovered: list[str] = field(default_factory=list)

    @property
    def faults(self) -> Counter[str]:
        """Return the number of faults of each kind."""
        begun = (line for line in self.history.lines if line["what"] == "fault" and line["state"] == "begins")
        return Counter(line["name"] for line in begun if "lost" not in line)

    def lines(self) -> list[str]:
        """Return the report as text."""
        plan, tally = self.plan, self.tally
        lines = [f"{plan.clients} devices of {plan.people} people, {plan.servers} servers, seed {plan.seed}"]
        # First, because the output of CI is cut.
        lines += [f"PROBLEM {sentence}" for sentence in tally.problems[:60]]
        lines += [f"  {name}: {value}" for name, value in self.figures.items()]
        lines += [f"  {activity} after {seconds:.1f} s at most" for activity, seconds in sorted(tally.longest.items())]
        lines.append("operations, by outcome")
        for operation, outcomes in sorted(tally.operations.items()):
            counts = ", ".join(f"{outcome} {count}" for outcome, count in outcomes.most_common())
            lines.append(f"  {operation:<18} {counts}")
        titled = (("events", tally.events), ("ends of connections", tally.closes), ("notes", tally.notes))
        for title, counted in titled:
            lines.append(title)
            lines += [f"  {name}: {count}" for name, count in sorted(counted.items()) if count]
        lines.append(f"faults: {sum(self.faults.values())}")
        lines += [f"  {name}: {count}" for name, count in self.faults.most_common()]
        lines += ["time from healing to the first success of"] + [f"  {line}" for line in self.recovered]
        lines += [f"violations, {kind}: {count}" for kind, count in self.violations.items()]
        lines.append(f"problems: {tally.problem_count}")
        return lines
