"""Converts scripts together with the local modules that they import."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from .dataclass import replace
from .findings import finding
from .folders import project_root, within
from .nearby import Nearby
from .options import Options
from .parallel import groups
from .plan import TOO_LONG, File, Plan, apply_to, make_plans, real
from .program import Module, Program, has_main_guard
from .rewrite import InternalError, Result, careful, check_syntax
from .source import SourceError

Attempt = Callable[[str, Callable[[], None]], None]
Planner = Callable[[Program, Options], "list[tuple[Module, Plan]]"]

IN_PART = "It can't be converted in part: what is refused in it keeps the rest of it from being understood."
IN_PART_HINT = "change what is refused first, then convert the whole"
GRACE = 4  # a second conversion may take so many times the budget of the first


def at_once(name: str, work: Callable[[], None]) -> None:
    """Does the work on a file; what goes wrong ends all of it."""
    work()


class Rewriter:
    """Converts scripts, each together with the local modules that it imports; a module may belong to several.

    Args:
        read: gives the bytes of a module that a script imports, `None` if there are none; without it, each file is
            converted by itself.
        planner: says what is to be done in the files of a program; if not given, what the rules ask for.
        explained: results tell what each edit changed.
        proved: a second conversion is tried and must change nothing; for what is written or handed out.
    """

    def __init__(
        self,
        read: Callable[[str], bytes | None] | None,
        planner: Planner | None = None,
        explained: bool = True,
        proved: bool = True,
    ) -> None:
        self._read = read
        self._explained, self._proved = explained, proved
        self._planner = planner or make_plans
        self._files: dict[str, File] = {}
        self._roots: list[tuple[str, Options]] = []
        self._programs: dict[str, Program] = {}
        self._nearby = Nearby(None if read is None else self._bytes)

    def register(self, path: str, data: bytes) -> None:
        """Take in a file that is to be converted.

        Raises:
            SourceError: the bytes are no Python source.
            InternalError: a mistake of distify.
        """
        file = File(path, data)
        if self._nearby.trains(path, data):
            with careful(path):
                check_syntax(file.decoded().text, path)
                self._files[real(path)] = file
                self._programs[path] = self._program(path, {})
        self._files.setdefault(real(path), file)

    def scripts(self) -> list[str]:
        """The files taken in that a run may start from: those that no other imports, and those with a main guard."""
        reached: dict[str, set[str]] = {
            path: {module.real for module in program.modules[1:]} for path, program in self._programs.items()
        }
        times = Counter(file for reach in reached.values() for file in reach)
        found, covered = [], set[str]()
        for path, program in self._programs.items():
            others = times[real(path)] - (real(path) in reached[path])
            if has_main_guard(program.entry.tree) or not others:
                found.append(path)
                covered |= {real(path), *reached[path]}
        for path in self._programs:  # files that only import each other
            if real(path) not in covered:
                found.append(path)
                covered |= {real(path), *reached[path]}
        return found

    def roots(self, path: str) -> list[str]:
        """The folders that the project of a script lies in: its root, else those above the script that it looks in."""
        folder = os.path.dirname(os.path.realpath(path))
        root = project_root(folder)
        above = (found for found in self._programs[path].roots if within(folder, found))
        return list(above) if root is None else [root]

    def plan(self, path: str, options: Options) -> None:
        """Plan the conversion of one script, and of the modules that it imports.

        Raises:
            InternalError: a mistake of distify.
        """
        with careful(path):
            planned = self._planner(self._programs[path], options)
        self._roots.append((path, options))
        for module, plan in planned:
            self._file(module).add(path, plan)

    def _bytes(self, path: str) -> bytes | None:
        found = self._files.get(real(path))
        if found is None and self._read is not None:
            data = self._read(path)
            return data
        return None if found is None else found.data

    def _program(self, path: str, texts: Mapping[str, str]) -> Program:
        """A script with its modules; `texts` replaces what is in the files."""

        def text_of(name: str) -> str | None:
            if real(name) in texts:
                return texts[real(name)]
            data = self._bytes(name)
            if data is None:
                return None
            found = self._files.setdefault(real(name), File(name, data))
            try:
                return found.decoded().text
            except SourceError:
                return None

        text = text_of(path)
        assert text is not None
        return Program.single(path, text) if self._read is None else Program.load(path, text, text_of)

    def _file(self, module: Module) -> File:
        found = self._files[real(module.path)]
        found.path = found.path if found.plans else module.path
        return found

    def results(self, attempt: Attempt = at_once) -> list[Result]:
        """The conversions of all files, in the order in which they were met.

        Args:
            attempt: does the work on a file or a script; it may let the others go on where that fails.

        Raises:
            InternalError: a mistake of distify.
        """
        self.edit(attempt)
        self.prove(attempt)
        return [file.result() for file in self._files.values()]

    def edit(self, attempt: Attempt = at_once) -> None:
        """Make what is planned: the first of the two steps that `results` takes."""
        refused = self._refused()
        for key, file in self._files.items():
            if file.plans and key not in refused:
                attempt(file.path, partial(self._edit, file))

    def prove(self, attempt: Attempt = at_once) -> None:
        """Convert once more, which must change nothing: the second one."""
        for path, options in self._roots if self._proved else ():
            attempt(path, partial(self._check, path, options))

    def planned(self) -> dict[str, Result]:
        """The results of the files that something was planned in, by their resolved paths."""
        return {key: file.result() for key, file in self._files.items() if file.plans}

    def others(self, planned: Mapping[str, Result]) -> list[Result]:
        """All results, where those of some files were made elsewhere."""
        kept = (planned.get(key) or file.result() for key, file in self._files.items())
        return [*kept, *(result for key, result in planned.items() if key not in self._files)]

    def independent(self, scripts: Iterable[str]) -> list[list[str]]:
        """Scripts that share no file with those of another group."""
        programs = {path: self._programs[path] for path in scripts}
        return groups({path: [module.real or path for module in item.modules] for path, item in programs.items()})

    def cost(self, scripts: Iterable[str]) -> int:
        """How much there is to analyse: characters of source."""
        return sum(len(module.source) for path in scripts for module in self._programs[path].modules)

    def _edit(self, file: File) -> None:
        with careful(file.path):
            file.edit(self._explained)

    def _refused(self) -> set[str]:
        """The files of every script of which something is refused and that is not to be converted in part, or in one
        of whose files nothing may be changed for the sake of another script."""
        found: set[str] = set()
        files = {path: [key for key, file in self._files.items() if path in file.plans] for path, _ in self._roots}
        for path, options in self._roots:
            own = files[path]
            if not options.partial and any(self._files[key].refused(path) for key in own):
                found.update(own)
        changed = True
        while changed:
            changed = False
            for path, options in self._roots:
                halved = any(key in found and self._files[key].plans[path].edits for key in files[path])
                if halved and not options.partial and not found.issuperset(files[path]):
                    found.update(files[path])
                    changed = True
        return found

    def _check(self, path: str, options: Options) -> None:
        """A second conversion must change nothing."""
        with careful(path):
            self._stable(path, options)

    def _stable(self, path: str, options: Options) -> None:
        texts = {key: file.text for key, file in self._files.items() if file.text is not None}
        if real(path) not in texts and not any(path in self._files[key].plans for key in texts):
            return
        if self._files[real(path)].gave_up(path):
            return
        # A program that was analysed in time is not a slow one after its conversion: then it is distify's mistake.
        longer = replace(options, budget=GRACE * int(options.effective("budget")))
        for module, plan in self._planner(self._program(path, texts), longer):
            if any(item.code == TOO_LONG for item in plan.findings):
                raise InternalError(f"{module.path}: the converted program takes too long to analyse")
            text = texts.get(real(module.path))
            if text is not None and apply_to(text, plan.edits) != text:
                if options.partial and any(path in file.plans and file.refused(path) for file in self._files.values()):
                    return self._take_back(path)
                kinds = ", ".join(sorted({edit.kind for edit in plan.edits}))
                raise InternalError(f"{module.path}: a second conversion would change the file again ({kinds})")

    def _take_back(self, path: str) -> None:
        """Leave a script alone with its modules: what is refused in it keeps the rest from being understood."""
        for file in self._files.values():
            if path in file.plans and file.text is not None:
                file.text, file.changes, file.unsafe = None, (), finding("DST902", None, IN_PART, IN_PART_HINT)
