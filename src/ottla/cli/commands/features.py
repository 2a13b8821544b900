"""`ottla features`: the feature levels of the cluster."""

from __future__ import annotations

import click

from ottla.cli.logic.words import parse_key_values
from ottla.cli.output import Output, json_fields
from ottla.cli.session import Session, confirm, controller_options, json_option, yes_option
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.client.admin.nodes import UpgradeType
from ottla.metadata.versions import (
    METADATA_VERSION,
    METADATA_VERSION_LATEST,
    METADATA_VERSION_MIN,
    METADATA_VERSION_OF_KAFKA,
    SUPPORTED_FEATURES,
    feature_dependencies,
    feature_levels_at,
    metadata_version_name,
)

__all__ = ["features", "level_of", "shown_level"]

# Since 3.9 the metadata log holds the voters of the quorum.
KRAFT_VERSION = "kraft.version"
KRAFT_VERSION_SINCE = 21


@click.group(cls=VerbGroup, default="describe", verbs={}, help="Show, upgrade and downgrade features (kafka-features).")
def features() -> None:
    """The verbs are below."""


@features.command("describe", help="Show every feature.")
@controller_options
def describe(session: Session) -> int:
    async def work(admin: AdminClient) -> None:
        await admin.connections.refresh([])
        described = await admin.cluster.features()
        session.output.table(
            ("FEATURE", "LEVEL", "FROM", "TO"),
            [
                (
                    feature.name,
                    shown_level(feature.name, feature.finalized or 0),
                    shown_level(feature.name, feature.supported_min),
                    shown_level(feature.name, feature.supported_max),
                )
                for feature in described.features
            ],
        )
        session.output.say(f"\nEpoch {described.epoch}")
        session.output.emit(
            {"epoch": described.epoch, "features": [json_fields(feature) for feature in described.features]}
        )

    return session.run(work)


@features.command("upgrade", help="Raise features, or all to a release.")
@click.option("--feature", "levels", multiple=True, metavar="NAME=LEVEL", help="May be repeated.")
@click.option("--release-version", "release", metavar="4.3-IV0", help="All features as this release has them.")
@click.option("--metadata", metavar="LEVEL", help="Only metadata.version.")
@click.option("--dry-run", is_flag=True, help="Check it, change nothing.")
@controller_options
def upgrade(session: Session, levels: tuple[str, ...], release: str | None, metadata: str | None, dry_run: bool) -> int:
    wanted = _levels(levels, release, metadata, upward=True)
    return _update(session, wanted, UpgradeType.UPGRADE, dry_run=dry_run)


@features.command("downgrade", help="Lower features.")
@click.option("--feature", "levels", multiple=True, metavar="NAME=LEVEL", help="May be repeated.")
@click.option("--release-version", "release", metavar="4.3-IV0", help="All features as this release has them.")
@click.option("--metadata", metavar="LEVEL", help="Only metadata.version.")
@click.option("--unsafe", is_flag=True, help="Even if metadata would be lost.")
@click.option("--dry-run", is_flag=True, help="Check it, change nothing.")
@yes_option
@controller_options
def downgrade(
    session: Session,
    levels: tuple[str, ...],
    release: str | None,
    metadata: str | None,
    unsafe: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    wanted = _levels(levels, release, metadata)
    if unsafe and not dry_run:
        confirm("An unsafe downgrade may lose metadata. Continue?", yes=yes)
    return _update(
        session, wanted, UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE, dry_run=dry_run
    )


@features.command("disable", help="Switch features off.")
@click.option("--feature", "names", multiple=True, required=True, metavar="NAME", help="May be repeated.")
@click.option("--unsafe", is_flag=True, help="Even if metadata would be lost.")
@click.option("--dry-run", is_flag=True, help="Check it, change nothing.")
@controller_options
def disable(session: Session, names: tuple[str, ...], unsafe: bool, dry_run: bool) -> int:
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    return _update(session, dict.fromkeys(names, 0), kind, dry_run=dry_run)


@features.command("version-mapping", help="Show which levels a release has.")
@click.option("--release-version", "release", default=metadata_version_name(METADATA_VERSION_LATEST), show_default=True)
@json_option
def version_mapping(release: str, as_json: bool) -> None:
    output = Output(as_json=as_json)
    levels = _release_levels(release)
    for name, level in levels.items():
        output.say(f"{name}={level}{f' ({metadata_version_name(level)})' if name == METADATA_VERSION else ''}")
    output.emit([{"feature": name, "level": level} for name, level in levels.items()])


@features.command("feature-dependencies", help="Show what a feature at a level needs.")
@click.option("--feature", "levels", multiple=True, required=True, metavar="NAME=LEVEL", help="May be repeated.")
@json_option
def dependencies(levels: tuple[str, ...], as_json: bool) -> None:
    output = Output(as_json=as_json)
    answers = []
    for name, text in parse_key_values(levels, option="--feature").items():
        level = level_of(name, text)
        needed = feature_dependencies(name, level)
        output.say(f"{name}={level} needs {', '.join(f'{other} at {least}' for other, least in needed) or 'nothing'}")
        needs = [{"feature": other, "level": least} for other, least in needed]
        answers.append({"feature": name, "level": level, "needs": needs})
    output.emit(answers)


def level_of(name: str, text: str) -> int:
    """A number, or a release's name for metadata.version."""
    if text.isdecimal():
        return int(text)
    if name == METADATA_VERSION:
        for level in range(METADATA_VERSION_OF_KAFKA, METADATA_VERSION_MIN - 1, -1):
            if metadata_version_name(level) == text or metadata_version_name(level).startswith(f"{text}-"):
                return level
    raise ValueError(f"{name}={text}: {text!r} is no level; 'ottla features describe' shows what can be chosen.")


def shown_level(name: str, level: int) -> str:
    return f"{level} ({metadata_version_name(level)})" if name == METADATA_VERSION and level else str(level)


def _release_levels(release: str) -> dict[str, int]:
    """The initial feature levels of a cluster of that release; 0 for features that it does not have."""
    level = level_of(METADATA_VERSION, release)
    begun_with = feature_levels_at(level)
    begun_with[KRAFT_VERSION] = 1 if level >= KRAFT_VERSION_SINCE else 0
    return {name: begun_with.get(name, 0) for name in sorted(SUPPORTED_FEATURES)}


def _levels(
    pairs: tuple[str, ...], release: str | None, metadata: str | None, *, upward: bool = False
) -> dict[str, int]:
    if sum(bool(option) for option in (pairs, release, metadata)) != 1:
        raise click.UsageError("Choose exactly one of --feature, --metadata and --release-version.")
    if release is not None:
        # An upgrade to level 0 would be refused.
        return {name: level for name, level in _release_levels(release).items() if level or not upward}
    if metadata is not None:
        return {METADATA_VERSION: level_of(METADATA_VERSION, metadata)}
    return {name: level_of(name, text) for name, text in parse_key_values(pairs, option="--feature").items()}


def _update(session: Session, levels: dict[str, int], kind: UpgradeType, *, dry_run: bool) -> int:
    async def work(admin: AdminClient) -> None:
        await admin.cluster.update_features(levels, kind=kind, validate_only=dry_run)
        for name, level in levels.items():
            verb = "could be set" if dry_run else "was set"
            session.output.say(f"{name} {verb} to {shown_level(name, level)}.")
        session.output.emit(levels)

    return session.run(work)
