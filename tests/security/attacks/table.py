"""The table of measurements: one line for each attack."""

from __future__ import annotations

from tests.security.attacks.outcome import Outcome

HEAD = (
    f"{'attack':<32} {'sent':>6} {'rest p50':>8} {'p99 ms':>6} {'att. p50':>8} {'p99 ms':>7} {'fail':>9} "
    f"{'MB':>5} {'peak':>5} {'after':>5} {'files':>5} {'peak':>5} {'after':>5} {'CPU s':>6} {'largest':>10}  codes"
)


def row(outcome: Outcome) -> str:
    """Return one line of the table."""
    rest, meanwhile, watch = outcome.rest, outcome.meanwhile, outcome.watch
    assert rest is not None
    failed = f"{sum(meanwhile.failures.values())}/{meanwhile.count}"
    codes = ", ".join(f"{code} {count:,}" for code, count in sorted(outcome.codes.items())) or "none"
    return (
        f"{outcome.name:<32} {outcome.requests:>6} {rest.milliseconds(0.5):>8.0f} {rest.milliseconds(0.99):>6.0f} "
        f"{meanwhile.milliseconds(0.5):>8.0f} {meanwhile.milliseconds(0.99):>7.0f} {failed:>9} "
        f"{watch.before.mb:>5.0f} {watch.peak_mb:>5.0f} {watch.after.mb:>5.0f} "
        f"{watch.before.files:>5} {watch.peak_files:>5} {watch.after.files:>5} {watch.cpu:>6.1f} "
        f"{outcome.largest:>10,}  {codes}"
    )
