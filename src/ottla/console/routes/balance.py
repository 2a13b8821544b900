"""Balancing: the plan of `ottla balance` with a picture of before and after, its run and its progress."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.balance.observe import observe, with_brokers
from ottla.balance.planner import Plan, make_plan
from ottla.balance.shortage import Shortage, find_shortages
from ottla.balance.steps import Steps, make_steps
from ottla.console.answers import ApiError, invalid
from ottla.console.call import Call, Need, Route
from ottla.console.change import Change, command_line
from ottla.console.routes.replicas import change_of_moves
from ottla.console.words import count_of

__all__ = ["BALANCE_ROUTES"]

LATENCY_FACTOR = 2.0


async def _progress(call: Call) -> dict[str, Any]:
    return call.services.balance.progress()


async def _balance(call: Call) -> Change:
    """Cruise Control's goals in their order, executed in steps."""
    drained = call.body.get("drain") or []
    if not isinstance(drained, list) or any(type(broker) is not int for broker in drained):
        raise invalid("'drain' must be a list of brokers.")
    throttle, factor = _throttle(call), _factor(call)
    observed = with_brokers(await call.view.run(observe), drained=drained)
    # Thousands of partitions take seconds.
    plan = await asyncio.to_thread(make_plan, observed)
    shortages = find_shortages(observed, plan.stranded)
    if plan.is_empty and shortages:
        raise ApiError(409, "NOT_AVAILABLE", *_message_and_hint(shortages))
    if plan.is_empty:
        raise ApiError(409, "NOTHING_TO_DO", "The cluster is balanced: nothing has to move.")
    steps = await asyncio.to_thread(make_steps, observed, plan.movements)
    client, user = call.account.settings, call.account.user

    async def apply() -> dict[str, Any]:
        await call.services.balance.start(
            client, steps.steps, throttle=throttle, factor=factor, drained=drained, user=user
        )
        return {"moving": sum(len(step.movements) for step in steps.steps), "steps": len(steps.steps)}

    command = command_line(
        "balance",
        "run",
        options=[
            *[("--drain", broker) for broker in drained],
            ("--throttle", throttle),
            *_guard_options(factor),
            ("--yes", True),
        ],
    )
    return await change_of_moves(
        call,
        await call.view.state.get(),
        {movement.partition: list(movement.after) for step in steps.steps for movement in step.movements},
        command=command,
        apply=apply,
        warnings=_left_out(shortages, steps),
        preview={"goals": _goals(plan), "steps": len(steps.steps)},
    )


def _throttle(call: Call) -> int | None:
    throttle = call.body.get("throttle")
    if throttle is not None and (type(throttle) is not int or throttle < 1):
        raise invalid("'throttle' must be a number of bytes per second.")
    return throttle


def _factor(call: Call) -> float | None:
    """The factor by which producers may wait longer than before; None if they are not watched."""
    factor = call.body.get("latency_factor", LATENCY_FACTOR)
    if factor is not None and (isinstance(factor, bool) or not isinstance(factor, int | float) or factor < 1):
        raise invalid("'latency_factor' must be a number from 1 on, or null.")
    return factor


def _guard_options(factor: float | None) -> list[tuple[str, object]]:
    if factor is None:
        return [("--no-guard", True)]
    return [] if factor == LATENCY_FACTOR else [("--latency-factor", factor)]


def _goals(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "goal": result.goal,
            "is_hard": result.is_hard,
            "violations_before": result.violations_before,
            "violations_after": result.violations_after,
            "left": list(result.left),
        }
        for result in plan.goals
    ]


def _message_and_hint(shortages: list[Shortage]) -> tuple[str, str]:
    """The sentences of all shortages, and the remedy of the largest."""
    return " ".join(shortage.text for shortage in shortages), shortages[0].remedy


def _left_out(shortages: list[Shortage], steps: Steps) -> list[str]:
    warnings = []
    if steps.postponed:
        warnings.append(f"There is no room for {count_of(len(steps.postponed), 'move')}: these replicas stay.")
    return [*warnings, *(f"{shortage.text} {shortage.remedy}" for shortage in shortages)]


async def _resume(call: Call) -> Change:
    run, factor = call.services.balance, _factor(call)
    journal = run.interrupted()
    moves = sum(len(step.movements) for step in journal.steps)

    async def apply() -> dict[str, Any]:
        await run.resume(call.account.settings, factor=factor, user=call.account.user)
        return {"moving": moves, "steps": len(journal.steps)}

    return Change(
        plan=[
            f"Continues a plan of {count_of(moves, 'move')} in {count_of(len(journal.steps), 'step')}; "
            "what is done already is left out."
        ],
        command=command_line("balance", "resume", options=_guard_options(factor)),
        apply=apply,
    )


async def _stop(call: Call) -> Change:
    run = call.services.balance
    if not run.is_running:
        raise ApiError(409, "NOTHING_TO_DO", "No plan is running.")

    async def apply() -> dict[str, Any]:
        await run.stop(call.account.user)
        return run.progress()

    return Change(
        plan=["Takes back the moves that are going on, and stops. The steps before stay; the plan can be resumed."],
        # On the command line Ctrl-C stops the run, and this command takes back the moves.
        command=command_line("reassign", "cancel", options=[("--reassignment-json-file", "plan.json")]),
        apply=apply,
    )


BALANCE_ROUTES = (
    Route("GET", "/api/balance", _progress),
    Route("POST", "/api/balance", _balance, Need.WRITE),
    Route("POST", "/api/balance/resume", _resume, Need.WRITE),
    Route("DELETE", "/api/balance", _stop, Need.WRITE),
)
