"""A PNG of a run: plot.py FILE.png, the JSON of the run on standard input. Run by the peers' Python."""

import json
import statistics
import sys

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

THOUSAND = 1000
PANELS = (
    ("calls", "p50_ms", "p50 with 1 in flight, ms (less is better)"),
    ("calls", "per_s", "calls a second with 32 in flight (more is better)"),
    ("large", "ms", "a 10 MB text, ms (less is better)"),
)


def main() -> None:
    """Draw the panels of the parts that were measured: a dot is a round, the bar its median."""
    figures = json.load(sys.stdin)
    panels = [panel for panel in PANELS if panel[0] in figures]
    if not panels:
        sys.exit("nothing that was measured is plotted")
    figure, axes = plt.subplots(len(panels), 1, figsize=(8, 2.2 * len(panels)), squeeze=False)
    for axis, (part, name, title) in zip(axes[:, 0], panels, strict=True):
        targets = list(figures[part])
        rounds = [figures[part][target][name] for target in targets]
        colours = ["tab:orange" if target == "mcpx" else "tab:gray" for target in targets]
        medians = [statistics.median(values) for values in rounds]
        axis.barh(targets, medians, color=colours)
        for row, values in enumerate(rounds):
            axis.plot(values, [row] * len(values), "k.", markersize=3, alpha=0.6)
            axis.annotate(
                f" {medians[row]:,.3g}" if medians[row] < THOUSAND else f" {medians[row]:,.0f}",
                (max(values), row),
                va="center",
                fontsize=8,
            )
        axis.invert_yaxis()
        axis.margins(x=0.15)
        axis.set_title(title, fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
    machine = figures["machine"]
    figure.text(0.01, 0.005, f"{machine['cpus']} x {machine['cpu']}, Python {machine['python']}", fontsize=7)
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    figure.savefig(sys.argv[1], dpi=150)


main()
