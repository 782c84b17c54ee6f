"""A pipeline once more over a part of the past: the same query, other bounds, another checkpoint.

    headrace pipeline replay errors.sql --from 2026-01-30 --to 2026-01-31 --into errors-shadow

Every input begins at one time and ends at another, whatever the file says. The checkpoint is named by both,
beside the file's own, which is not touched: the same replay started again goes on where it was, and does
nothing once it is done, so each of its rows is written once (but for `mode: update` through Spark Connect,
where a batch that Spark repeats is written again). Into the same output the rows come again, which an upsert
takes and a feed's readers have to expect; a shadow takes them aside, and no dead letters are written then.
"""

from collections.abc import Mapping
from dataclasses import replace

from headrace.spark.pipeline.spec import OutputSpec, PipelineSpec


class ReplayError(ValueError):
    """What cannot be replayed that way."""


def replayed(spec: PipelineSpec, from_ms: int, to_ms: int, into: Mapping[str, str]) -> PipelineSpec:
    """The pipeline of a replay. `into` has places by names of outputs, the empty one for the only one."""
    if from_ms >= to_ms:
        raise ReplayError("--from must be before --to")
    names = [each.name for each in spec.outputs]
    unknown = [each for each in into if each not in names and not (each == "" and len(names) == 1)]
    if unknown:
        said = f"output {unknown[0]!r}" if unknown[0] else "one output"
        raise ReplayError(f"{spec.header.path} has not {said}; say --into NAME=PLACE with {', '.join(names)}")
    if into and len(into) != len(names):
        lacking = next(each for each in names if each not in into)
        raise ReplayError(f"say --into {lacking}=PLACE too: some outputs would be written to, and some not")
    outputs = tuple(_into(each, into.get(each.name, into.get(""))) for each in spec.outputs)
    inputs = tuple(
        replace(
            each,
            start=str(from_ms),
            end=str(to_ms),
            dead_letters=None if into else each.dead_letters,
            options={"startingOffsetsByTimestampStrategy": "latest", **each.options},
        )
        if each.files_kind is None
        else each
        for each in spec.inputs
    )
    aside = "-".join(["replay", str(from_ms), str(to_ms), *(["shadow"] if into else [])])
    return replace(
        spec,
        name=f"{spec.name} {aside}",
        inputs=inputs,
        outputs=outputs,
        trigger={"availableNow": True},
        checkpoint=f"{spec.checkpoint}-{aside}",
        schedule=None,
    )


def _into(output: OutputSpec, place: str | None) -> OutputSpec:
    if place is None:
        return output
    if output.kind in ("feeds", "console"):
        raise ReplayError(f"an output `{output.kind}` has no place to put another in")
    if place == output.place:
        raise ReplayError(f"{place} is where it goes anyway: leave --into out")
    return replace(output, place=place)
