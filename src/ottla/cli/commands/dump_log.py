"""`ottla dump-log`: prints segments, indexes, snapshots and checkpoints in Kafka's format."""

from __future__ import annotations

import json
import sys

import click

from ottla.cli.failures import Failure
from ottla.cli.logic.dump import DumpOptions, dump_file

__all__ = ["dump_log"]


@click.command(help="Print segments, indexes and snapshots (kafka-dump-log).")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, dir_okay=False), metavar="[FILE]...")
@click.option("--files", metavar="A,B", help="Files, with commas.")
@click.option("--print-data-log", is_flag=True, help="Print records with key and value.")
@click.option("--deep-iteration", is_flag=True, help="Print records.")
@click.option("--cluster-metadata-decoder", "decoder", flag_value="metadata", help="Decode the metadata log.")
@click.option("--offsets-decoder", "decoder", flag_value="offsets", help="Decode __consumer_offsets.")
@click.option("--transaction-log-decoder", "decoder", flag_value="transactions", help="Decode __transaction_state.")
@click.option("--share-group-state-decoder", "decoder", flag_value="share", hidden=True)
@click.option("--skip-record-metadata", is_flag=True, help="Print only key and value of records.")
@click.option("--index-sanity-check", is_flag=True, help="Check that an index is in order, print nothing.")
@click.option("--verify-index-only", is_flag=True, help="Check an index against its segment, print nothing.")
@click.option("--max-message-size", type=int, default=5 * 1024 * 1024, hidden=True)
@click.option("--max-bytes", type=click.IntRange(0), metavar="N", help="Read at most this many bytes of a segment.")
@click.option("--key-decoder-class", hidden=True, expose_value=False)
@click.option("--value-decoder-class", hidden=True, expose_value=False)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line.")
def dump_log(
    paths: tuple[str, ...],
    files: str | None,
    print_data_log: bool,
    deep_iteration: bool,
    decoder: str | None,
    skip_record_metadata: bool,
    index_sanity_check: bool,
    verify_index_only: bool,
    max_message_size: int,  # noqa: ARG001
    max_bytes: int | None,
    as_json: bool,
) -> int:
    wanted = [*paths, *[name.strip() for name in (files or "").split(",") if name.strip()]]
    if not wanted:
        raise click.UsageError("Name files, as arguments or with --files.")
    options = DumpOptions(
        records=deep_iteration or print_data_log or decoder is not None,
        payloads=print_data_log or decoder is not None,
        record_metadata=not skip_record_metadata,
        decoder=decoder,
        check_only=index_sanity_check or verify_index_only,
        bytes_max=max_bytes,
    )
    wrong = False
    for path in wanted:
        if not as_json:
            print(f"Dumping {path}")
        try:
            for line in dump_file(path, options):
                wrong |= line.is_complaint
                if as_json:
                    print(json.dumps({"file": path, **line.fields}, ensure_ascii=False))
                else:
                    print(line.text, file=sys.stderr if line.is_complaint else sys.stdout)
        except ValueError as error:
            raise Failure(str(error)) from None
    return 1 if wrong else 0
