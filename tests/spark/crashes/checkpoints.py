"""Checkpoints that lose their newest files, as a power cut or a tidy hand has it."""

from __future__ import annotations

import random
from pathlib import Path


class LostFiles:
    """The newest files of one checkpoint, of which some go, and one may stay as a half."""

    def __init__(self, checkpoint: Path, choices: random.Random) -> None:
        self._halves: list[Path] = []
        self.names: list[str] = []
        """What is gone: `commits/3`, `offsets/3 (half)`."""
        depth, kinds = choices.choice([1, 1, 1, 2, 3]), choices.choice([["commits"], ["commits", "offsets"]])
        numbers = sorted(int(file.name) for file in (checkpoint / kinds[-1]).glob("[0-9]*"))[-depth:]
        for number in numbers:
            for kind in kinds:
                self._lose(checkpoint / kind / str(number), number == numbers[-1] and choices.random() < 0.2)

    def _lose(self, file: Path, leaves_half: bool) -> None:
        if not file.exists():
            return
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        name = f"{file.parent.name}/{file.name}"
        if leaves_half:
            data = file.read_bytes()
            file.write_bytes(data[: len(data) // 2])
            self._halves.append(file)
            name += " (half)"
        else:
            file.unlink()
        self.names.append(name)

    def remove_halves(self) -> None:
        """Removes what is left of them, which Spark refuses to read."""
        for file in self._halves:
            file.unlink(missing_ok=True)
        self._halves.clear()
