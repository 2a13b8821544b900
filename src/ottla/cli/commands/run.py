"""`ottla up` and `ottla node`: the click commands of `start_options`.

`main` reads a valid command line without click. These commands answer every other line.
"""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.start_options import START_OPTIONS, StartOption, start

__all__ = ["node", "up"]

_HELP = {
    "up": "Run a local cluster in the foreground, until SIGTERM or Ctrl-C. A line that begins with 'ready' and the "
    "bootstrap addresses is printed once records are accepted.",
    "node": "Run one node from a properties file in the foreground, until SIGTERM or Ctrl-C. (kafka-server-start)",
}


class _Converted(click.ParamType[Any]):
    def __init__(self, option: StartOption) -> None:
        self.name = option.name
        self._option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        assert self._option.convert is not None
        try:
            return self._option.convert(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


_PATHS = {"--data": click.Path(file_okay=False), "--config": click.Path(dir_okay=False)}


def _command(name: str) -> click.Command:
    options: list[click.Parameter] = []
    for option in START_OPTIONS[name]:
        if option.convert is None:
            options.append(click.Option([option.flag], is_flag=True, help=option.help))
        else:
            options.append(
                click.Option(
                    [option.flag],
                    type=_PATHS.get(option.flag) or _Converted(option),
                    required=option.is_required,
                    multiple=option.is_repeated,
                    metavar=option.metavar,
                    help=option.help,
                    **({} if option.default is None else {"default": option.default}),
                    **({} if option.bare is None else {"is_flag": False, "flag_value": option.bare}),
                )
            )
    return click.Command(name, help=_HELP[name], params=options, callback=lambda **values: start(name, values))


up = _command("up")
node = _command("node")
