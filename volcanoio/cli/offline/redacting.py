"""`volcanoio snapshot redact`: writes a copy of a saved state or journal with pseudonyms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from volcanoio.bus.journal import SUFFIX, JournalError
from volcanoio.cli.offline.replaying import PROCESSES, replay_all
from volcanoio.cli.offline.state_source import write_file
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError
from volcanoio.compose.journals.redacting import JournalRedaction, redact_state
from volcanoio.framework.arguments import pluralize
from volcanoio.model.manifests import ManifestError, read_manifests
from volcanoio.runtime.garbage_collection import tune_garbage_collector


def run_redact(*, source: Path, target: Path, keep: Sequence[str], check: bool) -> int:
    """Write the redacted copy, replay it if it is a journal, and print what was done; returns the exit code.

    Raises CommandError.
    """
    if target.exists():
        raise UsageError(f"{target} exists; give a path that does not")
    if not source.exists():
        raise UsageError(
            f"{source}: No such file or directory; give a file of `snapshot save` or a journal's directory"
        )
    if source.is_file():
        return _redact_state(source, target, keep)
    if not any(source.rglob(f"*{SUFFIX}")):
        raise UsageError(f"{source}: no journal; give the directory of --journal, or one file with a saved state")
    tune_garbage_collector()
    try:
        return _redact_journal(source, target, keep, check=check)
    except JournalError as error:
        raise CommandError(str(error)) from None


def _redact_journal(source: Path, target: Path, keep: Sequence[str], *, check: bool) -> int:
    """Write the copy; one that does not replay because of digests is written again with those of the pseudonyms."""
    redaction = JournalRedaction(source, keep)
    digests: dict[str, str] = {}
    while True:
        redaction.write(target, digests)
        parts = {name: target / name for name in PROCESSES if (target / name).is_dir()}
        reports = replay_all(parts, ((), ()), None) if check else {}
        new = {old: now for report in reports.values() for old, now in report.digests.items()}
        if not new.keys() - digests.keys() - set(digests.values()):
            break
        digests |= new
    print(f"written to {target}", flush=True)
    for name, report in reports.items():
        if report.first is not None:
            raise CommandError(
                f"the copy does not replay to the recorded decisions: {name}: {report.first}; "
                "does the original? If so, name words with a meaning for your plugins with --keep"
            )
        print(f"{name}: replays to the same {pluralize(report.decisions, 'decision')}", flush=True)
    return ExitCode.OK


def _redact_state(source: Path, target: Path, keep: Sequence[str]) -> int:
    try:
        content = redact_state(read_manifests(source), keep)
    except ManifestError as error:
        raise UsageError(error) from None
    write_file(target, content)
    print(f"written to {target}", flush=True)
    return ExitCode.OK
