"""Stand-ins for third-party modules that SGLang imports and its prefix caches never call."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType


class _Anything(type):
    """A class of classes: any dotted name below it can be imported, called or subclassed."""

    def __getattr__(cls, name: str) -> "_Anything":
        return _stand_in(name)

    def __getitem__(cls, _key: object) -> "_Anything":
        return cls

    def __setitem__(cls, _key: object, _value: object) -> None:
        """Registries are written to at import."""


class _Instance:
    def __init__(self, *_args: object, **_options: object) -> None:
        """Takes what the real class would take."""

    def __init_subclass__(cls, **_options: object) -> None:
        """Class options (`total=False`) are for the real base class."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> dict[str, str]:
        return {"type": "any"}

    def __getattr__(self, name: str) -> "_Anything":
        return _stand_in(name)


def _stand_in(name: str) -> _Anything:
    # Probing for a protocol (`__iter__`, `__get_pydantic_core_schema__`) must fail.
    if name.startswith("__"):
        raise AttributeError(name)
    return _Anything(name, (_Instance,), {})


class _AbsentModule(ModuleType):
    def __getattr__(self, name: str) -> _Anything:
        stand_in = _stand_in(name)
        setattr(self, name, stand_in)
        return stand_in


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers last, so a module that is really installed is always preferred."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self.names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def allow_absent(*names: str) -> None:
    """Let the top-level modules `names` be imported although they are not installed."""
    sys.meta_path.append(AbsentFinder(names))
