"""What a trial is known by: its fields as plain values, less those at their default.

A field that is added later, with a default under which nothing changes, therefore changes no identity.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any


def written(part: Any) -> dict[str, Any]:
    """All fields of a dataclass that count when two are compared, as plain values."""
    return {field.name: _plain(getattr(part, field.name)) for field in fields(part) if field.compare}


def filled(kind: type, values: Mapping[str, Any], **kinds: type) -> dict[str, Any]:
    """The written form of a dataclass, with fields that are missing at their default.

    `kinds` are the classes of fields that the annotations leave open. Raises KeyError for a field that the
    class has not got or that has no default.
    """
    found: dict[str, Any] = dict(values)
    for field in fields(kind):
        if not field.compare:
            continue
        if field.name not in found:
            found[field.name] = defaults(kind)[field.name]
        elif nested := _nested(field, kinds):
            found[field.name] = filled(nested, found[field.name])
    if unknown := found.keys() - {field.name for field in fields(kind) if field.compare}:
        raise KeyError(f"{kind.__name__} has no field {unknown.pop()}")
    return found


def essential(kind: type, values: Mapping[str, Any], **kinds: type) -> dict[str, Any]:
    """The written form of a dataclass less the fields at their default, however deep they are.

    >>> from headcount.trials.training import Training
    >>> essential(Training, written(Training(steps=1_000)))
    {'steps': 1000, 'warmup': 100}
    """
    usual = defaults(kind)
    found = {name: value for name, value in values.items() if name not in usual or value != usual[name]}
    for field in fields(kind):
        if field.name in found:
            if nested := _nested(field, kinds):
                found[field.name] = essential(nested, found[field.name])
            elif field.type is float:
                found[field.name] = float(found[field.name])  # 1 and 1.0 are one number
    return found


def hashed(identity: Mapping[str, Any]) -> str:
    """An identity as 16 hexadecimal digits."""
    return hashlib.sha256(as_json(identity).encode()).hexdigest()[:16]


def as_json(values: Mapping[str, Any]) -> str:
    """Plain values in an order that never changes."""
    return json.dumps(values, sort_keys=True)


@cache
def defaults(kind: type) -> dict[str, Any]:
    """The defaults of a dataclass, as plain values."""
    made = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
    }
    return {name: _plain(value) for name, value in made.items() if value is not MISSING}


def _nested(field: Field[Any], kinds: Mapping[str, type]) -> type | None:
    kind = kinds.get(field.name, field.type)
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


def _plain(value: Any) -> Any:
    """What JSON reads back as it was written: lists for tuples, Python's numbers for NumPy's."""
    if is_dataclass(value):
        return written(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value.item() if hasattr(value, "item") else value
