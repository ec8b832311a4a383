"""What is in force in the scheduler's journal follows what is reloaded."""

from __future__ import annotations

from pathlib import Path

import msgspec

from volcanoio.bus.journal import Journal
from volcanoio.compose.journals.recording import ConfigurationRecorder
from volcanoio.framework.scheduling_events import ConfigurationChanged


def test_a_reload_records_the_configuration_in_force(tmp_path: Path) -> None:
    journal = Journal(tmp_path, process="scheduler", now=lambda: 0.0)
    journal.configured("c.conf", "first")
    journal.plugin("volcanoio.scheduler_plugins", "mine", "mine.py sha256:1")
    in_force = ConfigurationRecorder(journal, "c.conf")
    for seq, (text, origin) in enumerate((("first", "1"), ("second", "1"), ("second", "2")), 1):
        event = ConfigurationChanged(seq=seq, text=text, plugins={"mine": f"mine.py sha256:{origin}"})
        journal.events((event,))
        in_force((event,))
    journal.close()
    lines = [msgspec.json.decode(line) for path in tmp_path.iterdir() for line in path.read_bytes().splitlines()]
    reported = [line["text"] for line in lines if "name" in line and "text" in line]
    assert reported[-1] == "second"
    assert [line["origin"] for line in lines if "origin" in line][-1] == "mine.py sha256:2"
