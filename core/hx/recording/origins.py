"""The user's line that runs: the innermost frame that is not of PyTorch, hx or a pack."""

from __future__ import annotations

import copy
import dis
import sys
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from ..torchworld import model_packages

_HERE = Path(__file__).parents[1]
_TORCH = Path(torch.__file__).parent
# Code has the name under which it was found, which may lead there through a link.
_OWN = tuple(f"{p}/" for p in (_HERE, _HERE.resolve()))
_TORCHS = tuple(f"{p}/" for p in (_TORCH, _TORCH.resolve()))
_MACHINERY = (
    *_TORCHS,
    *_OWN,
    copy.__file__,  # asks tensors for their memory
)
_GUESTS = tuple(file for p in (_TORCH, _TORCH.resolve()) for file in model_packages.files(_HERE, p))
_ALSO = ("<frozen", "<string>", "contextlib.py", "functools.py")


# Code that carries out the model's own arithmetic and lookups, and their errors.
_CARRY_OUT = (
    "ir/sizes/",
    "torchworld/spelling/followed_functions.py",
    "torchworld/spelling/lookups.py",
    "torchworld/spelling/spellings.py",
)
_FOR_THE_MODEL = tuple(f"{p}{place}" for p in _OWN for place in _CARRY_OUT)
_OF_THE_MODEL = (ArithmeticError, LookupError, TypeError, ValueError)


def is_own_error(problem: BaseException) -> bool:
    """Return True if hx itself failed, rather than the model or a call that hx makes for it.

    The innermost frame decides. Where hx makes a call of the model, it passes the arguments on as
    they are: `original(*args, **kwargs)`. What is raised there in C is an error of that call.
    """
    traceback = problem.__traceback__
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    if not code.co_filename.startswith(_OWN):
        return False
    if code.co_filename.startswith(_FOR_THE_MODEL) and isinstance(problem, _OF_THE_MODEL):
        return False
    return dis.opname[code.co_code[traceback.tb_lasti]] != "CALL_FUNCTION_EX"


_DOOR = 7  # frames from `Frames.user` to the door of most calls, when their converter is asked


def is_machinery(code: CodeType) -> bool:
    """Return True for code of PyTorch, of hx, or of what they are called through."""
    if any(isinstance(c, FunctionType) for c in code.co_consts):
        return True  # a hooked function, which `patching` gave other code
    name = code.co_filename
    if name.startswith(_GUESTS):
        return False
    return name.startswith(_MACHINERY) or is_on_behalf(code)


def is_on_behalf(code: CodeType) -> bool:
    """Return True for generated code that acts for its caller, such as a dataclass's `__eq__`."""
    return code.co_filename.startswith(_ALSO[:2]) or code.co_filename.endswith(_ALSO[2:])


class Frames:
    """A finder of the user's frame, which remembers for each code object whose it is."""

    def __init__(self) -> None:
        # Keyed by identity: the hash of a code object is computed from all of it, each time.
        self._skip: dict[int, bool] = {}
        self._codes: list[CodeType] = []  # keeps those ids from being reused
        self._outer: set[int] = set()  # ids of the frames that called the export, and wait for it
        # For each module that runs, whose line called it, once somebody asked; and the code of the
        # frame that all its calls have around them.
        self.callers: list[FrameType | None] = []
        self.module_code: CodeType | None = None
        self.door_code: CodeType | None = None  # of the frame that torch calls, when it is called
        self.visited: list[tuple[CodeType, dict[str, Any]]] = []  # the model's, with its globals

    def begin(self) -> None:
        """Begin a call of the model: the frames that run now are not part of it."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            self._outer.add(id(frame))
            frame = frame.f_back

    def inside(self, depth: int = 2) -> FrameType | None:
        """The user's frame, while one of the model's runs."""
        frame = self.user(depth)
        return None if frame is None or id(frame) in self._outer else frame

    def is_outer(self, frame: FrameType) -> bool:
        """Return True for a frame that called the export."""
        return id(frame) in self._outer

    def checking(self) -> bool:
        """Return True while PyTorch checks the arguments of one of its own modules.

        A read decides there if an error is raised, and nothing else.
        """
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and is_machinery(frame.f_code):
            code = frame.f_code
            if code.co_name.startswith("check_") and code.co_filename.startswith(_TORCHS):
                return True
            frame = frame.f_back
        return False

    def called(self) -> FrameType | None:
        """The function that the module calls which runs, on the way to the user's frame."""
        frame, found = self.inside(3), []
        while frame is not None and frame.f_code is not self.module_code:
            if id(frame) in self._outer:
                break
            if not is_machinery(frame.f_code):
                found.append(frame)
            frame = frame.f_back
        return found[-2] if len(found) > 1 else None  # the last is the module's own forward

    def user(self, depth: int = 1) -> FrameType | None:
        frame: FrameType | None = sys._getframe(depth)
        try:
            door = sys._getframe(_DOOR)
            if door.f_code is self.door_code:  # frames before it are hx's own
                frame = door.f_back
        except ValueError:  # another thread may have just begun
            pass
        skip, callers = self._skip, self.callers
        passed = 0
        while frame is not None:
            code = frame.f_code
            machinery = skip.get(id(code))
            if machinery is None:
                machinery = skip[id(code)] = is_machinery(code)
                self._codes.append(code)
                if not machinery and id(frame) not in self._outer:
                    self.visited.append((code, frame.f_globals))
            if not machinery:
                break
            if code is self.module_code and passed < len(callers):
                passed += 1
                known = callers[-passed]
                if known is not None:
                    frame = known
                    break
            frame = frame.f_back
        if passed:
            callers[-passed:] = [frame] * passed
        return frame
