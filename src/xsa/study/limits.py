"""A study's limits on what a run may cost, held against the forecast before the first job."""

from __future__ import annotations

from xsa.store.errors import UserError
from xsa.study.outlook import Line, Outlook

# Limit, unit, and what a line adds to it.
_LIMITS = (
    ("gpu_hours", "GPU-hours", lambda line: line.gpu_hours),
    ("cpu_hours", "CPU-hours", lambda line: line.cpu_hours),
    ("cost", "in cost", lambda line: line.gpu_hours * line.price),
    ("disk_gb", "GB of disk", lambda line: line.cost.bytes / 1e9),
)


def exceeded(outlook: Outlook) -> list[str]:
    """A sentence for each limit that the run would exceed: what is predicted, what is allowed, and what takes most of it."""
    sentences = []
    for name, unit, amount in _LIMITS:
        limit = getattr(outlook.plan.study.limits, name)
        total = sum(map(amount, outlook.lines))
        if limit is not None and total > limit:
            most = _most(outlook.lines, amount)
            sentences.append(
                f"this run of the study {outlook.plan.study.name!r} would take about {_amount(total)} {unit}, and its limits "
                f"allow {_amount(limit)} (limits.{name} in {outlook.plan.loaded.path}). Most of it: {most}. Raise limits.{name} or "
                "set it to null, or run fewer cells"
            )
    return sentences


def check_limits(outlook: Outlook) -> None:
    """Raise UserError where a limit of the study would be exceeded."""
    sentences = exceeded(outlook)
    if sentences:
        basis = sorted(
            {line.forecast.said for line in outlook.lines if line.forecast and line.result.stage == "pretrain"}
        )
        ground = f"\nTraining is reckoned by: {'; '.join(basis)}" if basis else ""
        raise UserError("\n".join(sentences) + ground)


def _most(lines: list[Line], amount) -> str:
    """The stages and shapes that take most, at most three of them."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        if amount(line):
            groups.setdefault(f"{line.result.stage} {shape_of(line)}".strip(), []).append(line)
    sizes = sorted(((sum(map(amount, group)), name, len(group)) for name, group in groups.items()), reverse=True)
    return ", ".join(f"{name} ({count}) {_amount(size)}" for size, name, count in sizes[:3])


def shape_of(line: Line) -> str:
    """The shape in the label of a cell's result; empty for data."""
    return line.result.label.partition("-")[0] if line.cells else ""


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
